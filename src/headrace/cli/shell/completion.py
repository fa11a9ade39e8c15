"""Completion at the prompt: keywords, names of the catalog, commands and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from headrace.cli.output.text import to_printable
from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.cli.shell.command_list import COMMANDS
from headrace.grammar.catalog_queries import CatalogName, Lookup, NameKind
from headrace.grammar.lexer import Token, TokenKind, tokenize
from headrace.grammar.quoting import quote_name, unquote_name

KEYWORDS = frozenset(
    """
    ADD ALL ALTER ANALYZE AND ANTI ANY ARCHIVE AS ASC AT BEGIN BETWEEN BY CACHE CALL CANCEL CASCADE
    CASE CAST CATALOG CATALOGS CHANGE CLEAR CLUSTER CLUSTERED COLLATE COLUMN COLUMNS COMMENT COMPUTE
    CONDITION CONSTRAINT CREATE CROSS CUBE CURRENT_CATALOG CURRENT_DATABASE CURRENT_DATE
    CURRENT_TIMESTAMP CURRENT_USER DATABASE DATABASES DECLARE DEFAULT DELETE DESC DESCRIBE DISTINCT
    DISTRIBUTE DIV DO DROP ELSE ELSEIF END ESCAPE EXCEPT EXCLUDE EXECUTE EXISTS EXPLAIN EXTENDED
    EXTERNAL FALSE FETCH FILTER FIRST FOLLOWING FOR FOREIGN FORMAT FORMATTED FROM FULL FUNCTION
    FUNCTIONS GENERATED GLOBAL GROUP GROUPING HANDLER HAVING HOUR IDENTIFIER IF IGNORE ILIKE
    IMMEDIATE IN INCLUDE INNER INSERT INTERSECT INTERVAL INTO IS ITERATE JAR JOIN KEY LAST LATERAL
    LAZY LEAVE LEFT LIKE LIMIT LIST LOCATION LOOP MATCHED MATERIALIZED MERGE MONTH MSCK NATURAL NOT
    NULL NULLS OF OFFSET ON ONLY OPTIONS OR ORDER OUTER OVER OVERWRITE PARTITION PARTITIONED
    PARTITIONS PAUSE PERCENT PIVOT PRECEDING PRIMARY PURGE RANGE RECURSIVE REFERENCES REFRESH RENAME
    REPAIR REPEAT REPLACE RESET RESPECT RESTART RESTRICT RESUME RETRY RETURN RETURNS REVOKE RIGHT
    RLIKE ROLLUP ROW ROWS SAVE SCHEMA SCHEMAS SELECT SEMI SET SETS SHOW SINK SINKS SORT SORTED START
    STATEMENT STATISTICS STOP STORED STREAM STREAMS SYNC TABLE TABLES TABLESAMPLE TBLPROPERTIES TEMP
    TEMPORARY THEN TO TRANSFORM TRUE TRUNCATE UNBOUNDED UNCACHE UNION UNIQUE UNPIVOT UNSET UNTIL
    UPDATE USE USING VALUES VAR VARIABLE VIEW VIEWS WHEN WHERE WHILE WINDOW WITH WITHIN YEAR
    """.split()  # noqa: SIM905 - one quoted word per line would be two hundred lines
)
TYPES = frozenset(
    """
    ARRAY BIGINT BINARY BOOLEAN CHAR DATE DECIMAL DOUBLE FLOAT INT INTEGER MAP SMALLINT STRING
    STRUCT TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT VARCHAR VARIANT
    """.split()  # noqa: SIM905 - as above
)


_NAME = r"(?:`(?:[^`]|``)*`|\w+)"
_PARTIAL_NAME = re.compile(rf"((?:{_NAME}\.)*)(\w*)$")
_LONGEST_NAME = 1000
"""Characters in which a name is searched, at each key: a long word takes quadratic time."""
_PARTS = re.compile(_NAME)
_TABLE_WORDS = frozenset({"FROM", "JOIN", "INTO", "TABLE", "UPDATE", "DESCRIBE", "DESC", "VIEW"})
_DATABASE_WORDS = frozenset({"USE", "DATABASE", "SCHEMA", "NAMESPACE"})
_READ_WORDS = frozenset({"FROM", "JOIN", "INTO", "TABLE", "UPDATE"})
"""Words before the tables whose columns a statement can name."""
_EXPRESSION_WORDS = frozenset({"SELECT", "WHERE", "ON", "BY", "HAVING", "SET", "AND", "OR"})


class NamePlace(Enum):
    """The kind of name that a place in a statement asks for."""

    NOTHING = auto()
    """Inside a string or a comment."""
    START = auto()
    TABLE = auto()
    DATABASE = auto()
    EXPRESSION = auto()


@dataclass(frozen=True, slots=True)
class CompletionContext:
    """The unfinished name at the end of a text."""

    place: NamePlace
    qualifier: tuple[str, ...]
    """Parts of the name before the last dot."""
    prefix: str
    """Typed part of the last name."""


def find_context(before: str) -> CompletionContext:
    """Return the context at the end of the text before the cursor."""
    tokens = list(tokenize(before))
    if tokens and _is_inside_token(before, tokens[-1]):
        return CompletionContext(NamePlace.NOTHING, (), "")
    match = _PARTIAL_NAME.search(before, max(0, len(before) - _LONGEST_NAME))
    assert match is not None
    qualifier = tuple(unquote_name(part) for part in _PARTS.findall(match[1]))
    words = [token for token in tokens if token.start < match.start()]
    return CompletionContext(_find_place(words), qualifier, match[2])


def _is_inside_token(text: str, last: Token) -> bool:
    """Return whether the end of the text is inside a string or comment."""
    if last.end < len(text):
        return False
    line_comment = last.kind is TokenKind.COMMENT and text.startswith("--", last.start)
    string = last.kind is TokenKind.QUOTED and text[last.start] != "`"
    return line_comment or string or last.kind is TokenKind.UNREADABLE


def _find_place(tokens: Sequence[Token]) -> NamePlace:
    """Return the place after some tokens: the last keyword decides, also across a comma."""
    previous = tokens[-1].word if tokens else ";"
    if previous == ";":
        return NamePlace.START
    if previous in _TABLE_WORDS:
        return NamePlace.TABLE
    if previous in _DATABASE_WORDS:
        return NamePlace.DATABASE
    if previous == "IN" and any(token.word == "SHOW" for token in _last_statement(tokens)):
        return NamePlace.DATABASE
    if previous == ",":
        clauses = _TABLE_WORDS | _EXPRESSION_WORDS
        words = [token.word for token in _last_statement(tokens) if token.word in clauses]
        if words and words[-1] == "FROM":
            return NamePlace.TABLE
    return NamePlace.EXPRESSION


def _last_statement(tokens: Sequence[Token]) -> Sequence[Token]:
    ends = [index for index, token in enumerate(tokens) if token.word == ";"]
    return tokens[ends[-1] + 1 :] if ends else tokens


def find_tables(before: str, after: str) -> dict[str, tuple[str, ...]]:
    """Return the tables of the statement around the cursor, by alias or last part of the name."""
    text = before + after
    tokens = [token for token in tokenize(text) if token.kind is not TokenKind.COMMENT]
    begin = max((t.end for t in tokens if t.word == ";" and t.end <= len(before)), default=0)
    end = min(
        (t.start for t in tokens if t.word == ";" and t.start >= len(before)), default=len(text)
    )
    statement = [token for token in tokens if begin <= token.start < end]
    tables: dict[str, tuple[str, ...]] = {}
    for index, token in enumerate(statement):
        if token.word in _READ_WORDS:
            _read_tables(text, statement, index + 1, tables)
    return tables


def _read_tables(
    text: str, tokens: Sequence[Token], at: int, tables: dict[str, tuple[str, ...]]
) -> None:
    """Read `a.b [AS] x, c …` from an index on."""
    while True:
        parts, at = _read_name(text, tokens, at)
        if not parts:
            return
        alias = parts[-1]
        if at < len(tokens) and tokens[at].word == "AS":
            at += 1
        if at < len(tokens) and _is_name(text, tokens[at]):
            alias = unquote_name(text[tokens[at].start : tokens[at].end])
            at += 1
        tables[alias.lower()] = parts
        if at >= len(tokens) or tokens[at].word != ",":
            return
        at += 1


def _read_name(text: str, tokens: Sequence[Token], at: int) -> tuple[tuple[str, ...], int]:
    """Read a name of one or more parts. Return its parts and the index after it."""
    parts: list[str] = []
    while at < len(tokens):
        # Beside a dot, every word is a name, for example the database `default`.
        has_dot = bool(parts) or (at + 1 < len(tokens) and tokens[at + 1].word == ".")
        is_word = tokens[at].kind is TokenKind.WORD
        if not _is_name(text, tokens[at]) and not (has_dot and is_word):
            break
        parts.append(unquote_name(text[tokens[at].start : tokens[at].end]))
        at += 1
        if at >= len(tokens) or tokens[at].word != ".":
            break
        at += 1
    return tuple(parts), at


def _is_name(text: str, token: Token) -> bool:
    if token.kind is TokenKind.QUOTED:
        return text[token.start] == "`"
    return token.kind is TokenKind.WORD and token.word not in KEYWORDS


_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTION_PREFIX = 2
"""Typed characters after which the several hundred functions are offered too."""
_CHOICES = {"x": ("on", "off", "auto"), "timing": ("on", "off"), "pager": ("on", "off")}
_STARTS = tuple(
    """
    ALTER ANALYZE BEGIN CACHE CANCEL CREATE DECLARE DELETE DESCRIBE DROP EXECUTE EXPLAIN INSERT
    MERGE PAUSE REFRESH RESET RESTART RESUME SAVE SELECT SET SHOW STOP TRUNCATE UNCACHE UPDATE USE
    VALUES WITH
    """.split()  # noqa: SIM905 - one quoted word per line would be thirty lines
)
_ALL_KEYWORDS = sorted(KEYWORDS | TYPES)
_MAX_NAMES = 500


class ShellCompleter(Completer):
    """Completer of prompt_toolkit. It reads the cache only, and so never waits."""

    def __init__(self, cache: CatalogCache) -> None:
        self._cache = cache
        self._files = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        if document.text.lstrip().startswith("\\"):
            yield from self._complete_command(document, complete_event)
            return
        context = find_context(document.text_before_cursor)
        if context.place is NamePlace.NOTHING:
            return
        is_empty = not context.prefix and not context.qualifier
        if is_empty and not complete_event.completion_requested:
            return
        names = self._sql_names(document, context)
        yield from _matching(names, context.prefix)

    def _sql_names(self, document: Document, context: CompletionContext) -> Iterator[CatalogName]:
        """Yield what can stand at the cursor, the likeliest first."""
        if context.qualifier:
            yield from self._members(document, context)
        elif context.place is NamePlace.START:
            yield from _keywords(_STARTS, context.prefix)
        elif context.place is NamePlace.EXPRESSION:
            yield from self._expression_names(document, context)
        else:
            yield from self._relation_names(context)

    def _expression_names(
        self, document: Document, context: CompletionContext
    ) -> Iterator[CatalogName]:
        tables = _tables(document)
        for table in tables.values():
            yield from self._names(NameKind.COLUMNS, table)
        yield from (CatalogName(alias, "table") for alias in tables)
        yield from _keywords(_ALL_KEYWORDS, context.prefix)
        if len(context.prefix) >= _FUNCTION_PREFIX:
            yield from self._names(NameKind.FUNCTIONS)

    def _relation_names(self, context: CompletionContext) -> Iterator[CatalogName]:
        if context.place is NamePlace.TABLE:
            yield from self._names(NameKind.TABLES)
        yield from self._names(NameKind.DATABASES)
        yield from self._names(NameKind.CATALOGS)
        if context.prefix:
            yield from _keywords(_ALL_KEYWORDS, context.prefix)

    def _members(self, document: Document, context: CompletionContext) -> Iterator[CatalogName]:
        """Yield what a qualified name can continue with: columns, tables or databases."""
        qualifier = context.qualifier
        if context.place is NamePlace.EXPRESSION:
            table = _tables(document).get(qualifier[-1].lower())
            if table is not None:
                yield from self._names(NameKind.COLUMNS, table)
            return
        if context.place is NamePlace.TABLE:
            yield from self._names(NameKind.TABLES, qualifier)
        catalogs = {name.text for name in self._names(NameKind.CATALOGS)}
        if len(qualifier) == 1 and qualifier[0] in catalogs:
            yield from self._names(NameKind.DATABASES, qualifier)

    def _names(self, kind: NameKind, parent: tuple[str, ...] = ()) -> list[CatalogName]:
        return self._cache.names(Lookup(kind, parent))

    def _complete_command(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor.lstrip()
        name, space, arguments = before[1:].partition(" ")
        if not space:
            listed = dict.fromkeys(command.name for command in COMMANDS)
            summaries = {command.name: command.summary for command in reversed(COMMANDS)}
            names = [CatalogName(listed_name, summaries[listed_name]) for listed_name in listed]
            yield from _matching(names, name, quoted=False)
        elif name in {"i", "o", "g", "gx", "e"} or (name == "copy" and _is_at_file(arguments)):
            yield from self._complete_file(arguments, event, quoted=name == "copy")
        elif name in _CHOICES:
            yield from _matching([CatalogName(word) for word in _CHOICES[name]], arguments)
        elif name in {"d", "d+", "sv", "dt", "dv", "copy"}:
            context = find_context(f"TABLE {arguments}")
            without_keywords = replace(context, prefix="")
            yield from _matching(self._sql_names(document, without_keywords), context.prefix)

    def _complete_file(
        self, arguments: str, event: CompleteEvent, *, quoted: bool
    ) -> Iterator[Completion]:
        path = (
            re.split(r"\s(?:to|from)\s+", arguments, flags=re.IGNORECASE)[-1]
            if quoted
            else arguments
        )
        path = path.lstrip().lstrip("'\"")
        yield from self._files.get_completions(Document(path), event)


def _is_at_file(arguments: str) -> bool:
    return re.search(r"\s(?:to|from)\s", arguments, re.IGNORECASE) is not None


def _tables(document: Document) -> dict[str, tuple[str, ...]]:
    return find_tables(document.text_before_cursor, document.text_after_cursor)


def _keywords(words: Iterable[str], prefix: str) -> Iterator[CatalogName]:
    """Yield keywords in the case in which the user types."""
    for word in words:
        yield CatalogName(word.lower() if prefix.islower() else word, "")


def _matching(
    names: Iterable[CatalogName], prefix: str, *, quoted: bool = True
) -> Iterator[Completion]:
    """Yield the names that begin with the prefix, each once."""
    seen: set[str] = set()
    for name in names:
        if name.text in seen or not name.text.lower().startswith(prefix.lower()):
            continue
        seen.add(name.text)
        if len(seen) > _MAX_NAMES:
            return
        plain = not quoted or _PLAIN_NAME.fullmatch(name.text)
        yield Completion(
            name.text if plain else quote_name(name.text),
            start_position=-len(prefix),
            display=to_printable(name.text),
            display_meta=to_printable(name.detail),
        )
