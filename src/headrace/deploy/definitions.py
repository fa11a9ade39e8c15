"""Table definitions: files of SQL that say which streams, sinks and tables jobs can use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.deploy.manifest import JobKind, JobManifest
from headrace.deploy.problems import Findings, ManifestProblem, Place, SourceText
from headrace.deploy.query_places import list_statement_places
from headrace.deploy.relations import MentionedNames, fold_name
from headrace.deploy.script_statements import (
    DefinitionCommand,
    JobStatement,
    TextProblem,
    describe_error,
    read_statements,
)
from headrace.deploy.variables import ReplacedText, add_missing_variable, replace_within_limit
from headrace.errors import HeadraceError, Position
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import unquote_name
from headrace.grammar.stream_statements import CreateSink, CreateStreamAs
from headrace.grammar.text import offset_at, position_at
from headrace.model.deployment import TextPlaces

_MODIFIERS = frozenset({"OR", "REPLACE", "GLOBAL", "LOCAL", "TEMPORARY", "TEMP", "EXTERNAL"})
_CREATED = frozenset({"TABLE", "VIEW", "DATABASE", "SCHEMA", "NAMESPACE", "FUNCTION"})
_MAX_NAME_PARTS = 3


@dataclass(frozen=True, slots=True)
class NeededDefinitions:
    """The definitions that one job needs, as texts of SQL with the values of variables."""

    streams: tuple[str, ...] = ()
    """CREATE STREAM statements, each after those it reads."""
    sinks: tuple[CreateSink, ...] = ()
    """The sinks that the job writes to. A job with `sql` or `code` has at most one."""
    setup: tuple[str, ...] = ()
    """Statements of Spark's own, in the order of the files."""
    setup_places: tuple[TextPlaces, ...] = ()
    """Where each of these statements stands in its file."""

    @property
    def sink(self) -> CreateSink | None:
        """The sink of a job with `sql` or `code`; None: its target is a table."""
        return self.sinks[0] if self.sinks else None

    @property
    def texts(self) -> list[str]:
        """The definitions of streams and sinks, for the specification of a query."""
        return [*self.streams, *(sink.to_sql() for sink in self.sinks)]


@dataclass(frozen=True, slots=True)
class _Stream:
    text: str
    parts: tuple[str, ...]
    mentioned: MentionedNames
    """Names in its query."""


@dataclass(frozen=True, slots=True)
class _Setup:
    text: str
    places: TextPlaces
    created: tuple[str, ...] | None
    """Last part of the name that it creates, case-folded; None: every job needs it."""
    mentioned: MentionedNames


@dataclass(frozen=True, slots=True)
class Definitions:
    """All definitions of a deployment."""

    _streams: Mapping[tuple[str, ...], _Stream] = field(default_factory=dict)
    _sinks: Mapping[tuple[str, ...], CreateSink] = field(default_factory=dict)
    _setup: Sequence[_Setup] = ()

    def needed_for(self, manifest: JobManifest) -> NeededDefinitions:
        """Return the definitions whose names occur in the query or the target of a manifest.

        Definitions that a needed definition mentions are needed too.
        """
        mentioned = MentionedNames()
        if manifest.kind is JobKind.CODE:
            mentioned.add_python(manifest.query_text)
        else:
            mentioned.add_sql(manifest.query_text)
        if manifest.target is not None:
            mentioned.add_name(manifest.target)
        needed = _Needed(self._streams, self._setup)
        needed.add(mentioned)
        setup = [item for item in self._setup if id(item) in needed.setup]
        return NeededDefinitions(
            streams=tuple(needed.streams.values()),
            sinks=tuple(self._find_sinks(manifest, mentioned)),
            setup=tuple(item.text for item in setup),
            setup_places=tuple(item.places for item in setup),
        )

    def _find_sinks(self, manifest: JobManifest, mentioned: MentionedNames) -> list[CreateSink]:
        if manifest.target is None:
            return [sink for parts, sink in self._sinks.items() if mentioned.has(parts)]
        sink = self._sinks.get(fold_name(manifest.target))
        return [] if sink is None else [sink]


@dataclass(slots=True)
class _Needed:
    """The definitions that were found to be needed."""

    _streams: Mapping[tuple[str, ...], _Stream]
    _setup: Sequence[_Setup]
    streams: dict[tuple[str, ...], str] = field(default_factory=dict)
    setup: set[int] = field(default_factory=set)
    _visited: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, mentioned: MentionedNames) -> None:
        """Add the definitions that these names need, each stream after those it reads."""
        # A chain of streams can be longer than Python's stack.
        stack: list[tuple[Iterator[_Stream | _Setup], _Stream | None]] = [
            (self._find_new(mentioned), None)
        ]
        while stack:
            pending, reader = stack[-1]
            found = next(pending, None)
            if found is not None:
                own = found if isinstance(found, _Stream) else None
                stack.append((self._find_new(found.mentioned), own))
                continue
            stack.pop()
            if reader is not None:
                self.streams[reader.parts] = reader.text

    def _find_new(self, mentioned: MentionedNames) -> Iterator[_Stream | _Setup]:
        """Return each definition that these names need and that was not found before."""
        for item in self._setup:
            is_needed = item.created is None or mentioned.has(item.created)
            if is_needed and id(item) not in self.setup:
                self.setup.add(id(item))
                yield item
        for parts, stream in self._streams.items():
            # Spark reports a stream that reads itself as a table that does not exist.
            if mentioned.has(parts) and parts not in self._visited:
                self._visited.add(parts)
                yield stream


def load_definitions(
    files: Iterable[SourceText],
    variables: Mapping[str, str] | None = None,
    *,
    check: Callable[[str, DefinitionCommand], None] = lambda _text, _command: None,
) -> tuple[Definitions, tuple[ManifestProblem, ...]]:
    """Return the definitions of all files, and the problems of the files.

    Args:
        variables: Values of references such as `${NAME}`.
        check: Raises a HeadraceError for a definition that cannot exist. Its position is one in the
            text of the definition.
    """
    loader = _DefinitionLoader(variables or {}, check)
    for file in files:
        loader.load(file)
    return loader.finish()


class _DefinitionLoader:
    """Loads the definition files of one deployment."""

    def __init__(
        self, variables: Mapping[str, str], check: Callable[[str, DefinitionCommand], None]
    ) -> None:
        self._variables = variables
        self._check = check
        self._findings = Findings()
        self._streams: dict[tuple[str, ...], _Stream] = {}
        self._sinks: dict[tuple[str, ...], CreateSink] = {}
        self._setup: list[_Setup] = []
        self._places: dict[tuple[str, ...], Place] = {}

    def load(self, file: SourceText) -> None:
        """Load all statements of a file, unless a limit of the deployment is reached."""
        if self._findings.is_full():
            return
        replaced = replace_within_limit(file.text, self._variables, self._findings)
        if replaced is None:
            self._findings.report_limit(file.path)
            return
        for name, offset in replaced.missing:
            position = position_at(file.text, offset)
            place = Place(file.path, position.line, position.column)
            add_missing_variable(place, name, self._findings)
        statements, problems = read_statements(replaced.text, allow_queries=False)
        for statement in statements:
            found = self._find_problem(statement)
            if found is None:
                self._add(statement, file, replaced)
            else:
                problems.append(found)
        for problem in problems:
            place = _find_place(file, replaced, problem.position)
            self._findings.add_problem(place, problem.code, problem.message, problem.hint)
        self._findings.report_limit(file.path)

    def finish(self) -> tuple[Definitions, tuple[ManifestProblem, ...]]:
        """Return everything that was loaded."""
        definitions = Definitions(self._streams, self._sinks, self._setup)
        return definitions, self._findings.problems

    def _find_problem(self, statement: JobStatement) -> TextProblem | None:
        if not isinstance(statement.command, DefinitionCommand):
            return None
        try:
            self._check(statement.text, statement.command)
        except HeadraceError as error:
            return describe_error(error, statement.start)
        return None

    def _add(self, statement: JobStatement, file: SourceText, replaced: ReplacedText) -> None:
        command = statement.command
        place = _find_place(file, replaced, statement.position)
        mentioned = MentionedNames()
        if command is None:
            mentioned.add_sql(statement.text)
            name = find_created_name(statement.text)
            created = None if name is None else fold_name([name])
            start = offset_at(replaced.text, statement.start)
            end = start + len(statement.text)
            places = TextPlaces(
                path=file.path, parts=list_statement_places(file.text, replaced, start, end)
            )
            self._setup.append(_Setup(statement.text, places, created, mentioned))
            return
        assert isinstance(command, DefinitionCommand)
        if isinstance(command, CreateStreamAs):
            mentioned.add_sql(command.query)
        parts = fold_name((*command.qualifier, command.name))
        self._check_name(command, parts, place)
        if isinstance(command, CreateSink):
            self._sinks[parts] = command
        else:
            self._streams[parts] = _Stream(statement.text, parts, mentioned)

    def _check_name(self, command: DefinitionCommand, parts: tuple[str, ...], place: Place) -> None:
        name = qualified_name_to_sql((*command.qualifier, command.name))
        if len(parts) > _MAX_NAME_PARTS:
            message = f"The name {name} has more than {_MAX_NAME_PARTS} parts."
            self._findings.add_problem(place, "invalid_name", message)
        kind = "sink" if isinstance(command, CreateSink) else "stream"
        first = self._places.setdefault((kind, *parts), place)
        if first is not place and not command.replace:
            self._findings.add_problem(
                place,
                "duplicate_definition",
                f"The {kind} {name} is defined twice. The first definition is at {first}.",
                "Delete one of them.",
            )


def find_created_name(text: str) -> str | None:
    """Return the last part of the name that a statement of Spark's creates.

    Return None if the statement is not a CREATE TABLE, VIEW, DATABASE or FUNCTION.
    """
    tokens = list(code_tokens(text))
    if not tokens or tokens[0].word != "CREATE":
        return None
    at = 1
    while at < len(tokens) and tokens[at].word in _MODIFIERS:
        at += 1
    if at >= len(tokens) or tokens[at].word not in _CREATED:
        return None
    at += 1
    if tuple(token.word for token in tokens[at : at + 3]) == ("IF", "NOT", "EXISTS"):
        at += 3
    while at + 2 < len(tokens) and tokens[at + 1].word == ".":
        at += 2
    return unquote_name(text[tokens[at].start : tokens[at].end]) if at < len(tokens) else None


def _find_place(file: SourceText, replaced: ReplacedText, position: Position) -> Place:
    """Return the place in the file as written of a position in the text with values."""
    offset = replaced.written_offset(offset_at(replaced.text, position))
    written = position_at(file.text, offset)
    return Place(file.path, written.line, written.column)
