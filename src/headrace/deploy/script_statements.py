"""The statements of table definitions, and of the scripts of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.errors import HeadraceError, MultipleStatements, Position
from headrace.grammar.materialized_views import MaterializedViewStatement, ViewAction
from headrace.grammar.parse import parse
from headrace.grammar.script import ScriptStatement, split_script
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    CreateStreamAs,
    SaveStream,
)
from headrace.grammar.text import check_text

DefinitionCommand = CreateStream | CreateStreamAs | CreateSink
"""A definition of a stream or sink."""
_DEFINITIONS = (CreateStream, CreateStreamAs, CreateSink)


@dataclass(frozen=True, slots=True)
class JobStatement:
    """A statement of a definition file, or of the script of a job."""

    text: str
    command: DefinitionCommand | SaveStream | None
    """None: a statement of Spark's own."""
    position: Position
    """Position of its first word in the file or script."""
    start: Position
    """Position of the start of `text`, which can begin with a comment."""


class TextProblem(ValueError):
    """A text of a manifest or a definition file is not accepted."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        position: Position | None = None,
        hint: str | None = None,
        keys: Sequence[int | str] = (),
    ) -> None:
        self.code = code
        self.message = message
        self.position = position or Position(1, 1)
        """Position in the text."""
        self.hint = hint
        self.keys = keys
        """Keys that lead from the value to the part of it that is wrong."""
        super().__init__(message)


def read_statements(
    text: str, *, allow_queries: bool
) -> tuple[list[JobStatement], list[TextProblem]]:
    """Split a text; return its statements, and the problems of the others.

    Args:
        allow_queries: Whether SAVE STREAM is allowed: in scripts only.
    """
    statements, problems = list[JobStatement](), list[TextProblem]()
    try:
        check_text(text)
    except HeadraceError as error:
        return [], [describe_error(error, Position(1, 1))]
    for part in split_script(text):
        try:
            statements.append(_read_statement(part, allow_queries=allow_queries))
        except TextProblem as problem:
            problems.append(problem)
    return statements, problems


def check_script(text: str) -> Iterator[TextProblem]:
    """Yield the problems of the script of a job."""
    statements, problems = read_statements(text, allow_queries=True)
    yield from problems
    names: dict[str, Position] = {}
    for statement in statements:
        if not isinstance(statement.command, SaveStream):
            continue
        name = statement.command.name
        if name.casefold() in names:
            yield TextProblem(
                "duplicate_query",
                f"The script has two queries with the name {name}; the first is in line"
                f" {names[name.casefold()].line} of the script.",
                position=statement.position,
                hint="Name one of them with IDENTIFIED BY.",
            )
        names.setdefault(name.casefold(), statement.position)
    if not names and not problems:
        yield TextProblem(
            "missing_query", "The script starts no query.", hint="Add a SAVE STREAM statement."
        )


def check_batch_script(text: str) -> Iterator[TextProblem]:
    """Yield the problems of the script of a batch job."""
    try:
        check_text(text)
    except HeadraceError as error:
        yield describe_error(error, Position(1, 1))
        return
    parts = split_script(text)
    for part in parts:
        start = Position(part.line, part.column)
        try:
            parsed = parse(part.text)
        except HeadraceError as error:
            yield describe_error(error, start)
            continue
        if isinstance(parsed.command, SaveStream | DefinitionCommand):
            yield TextProblem(
                "statement_not_allowed",
                f"The script of a batch job cannot contain {parsed.keyword}.",
                position=_shift(start, parsed.position),
                hint="Delete `schedule` to run the job as a stream.",
            )
    if not parts:
        yield TextProblem("empty_statement", "The script is empty.", hint="Add a statement.")


def list_refreshed_views(text: str) -> list[tuple[str, ...]]:
    """Return the names of the materialized views that a script refreshes.

    Return an empty list if the script has another statement, or one that cannot be parsed.
    """
    names = list[tuple[str, ...]]()
    for part in split_script(text):
        try:
            command = parse(part.text).command
        except HeadraceError:
            return []
        if (
            not isinstance(command, MaterializedViewStatement)
            or command.action is not ViewAction.REFRESH
        ):
            return []
        names.append(command.name)
    return names


def check_query(text: str) -> None:
    """Raise TextProblem unless a text is one statement of Spark's own."""
    try:
        parsed = parse(text)
    except MultipleStatements as error:
        raise TextProblem(
            error.code,
            "The SQL of a job is one query. A second statement begins here.",
            position=error.position,
            hint="Put it into a manifest of its own, or write statements on streams under the key"
            " `script`.",
        ) from error
    except HeadraceError as error:
        raise describe_error(error, Position(1, 1)) from error
    if parsed.keyword is not None:
        raise TextProblem(
            "reserved_statement",
            f"{parsed.keyword} is not a query whose rows go to the target table.",
            position=parsed.position,
            hint="Write statements on streams under the key `script`.",
        )


def _read_statement(part: ScriptStatement, *, allow_queries: bool) -> JobStatement:
    start = Position(part.line, part.column)
    try:
        parsed = parse(part.text)
    except HeadraceError as error:
        raise describe_error(error, start) from error
    command, position = parsed.command, _shift(start, parsed.position)
    if command is None or isinstance(command, _DEFINITIONS):
        return JobStatement(part.text, command, position, start)
    if isinstance(command, SaveStream) and allow_queries:
        return JobStatement(part.text, command, position, start)
    subject = "The script of a job" if allow_queries else "A file of table definitions"
    raise TextProblem(
        "statement_not_allowed",
        f"{subject} cannot contain {parsed.keyword}.",
        position=position,
        hint="Allowed: CREATE STREAM, CREATE SINK, statements of Spark's own"
        + (", and SAVE STREAM." if allow_queries else ". Queries belong into a manifest."),
    )


def describe_error(error: HeadraceError, start: Position) -> TextProblem:
    """Return the problem that an error of a statement is, given where its text begins."""
    position = start if error.position is None else _shift(start, error.position)
    return TextProblem(error.code, error.message, position=position, hint=error.hint)


def _shift(start: Position, within: Position) -> Position:
    """Return the position in a text of a position within a part that begins at `start`."""
    if within.line == 1:
        return Position(start.line, start.column + within.column - 1)
    return Position(start.line + within.line - 1, within.column)
