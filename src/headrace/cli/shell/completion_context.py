"""What a name at the end of a text can stand for, and which tables the statement names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from headrace.grammar.lexer import Token, TokenKind, tokenize
from headrace.grammar.quoting import unquote_name

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
