"""Parse of a submitted text, once, before the text is stored.

Headrace recognises its own statements by their first words, in the table below. All other texts
are Spark's and pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from headrace.errors import (
    PARSE_SYNTAX_ERROR,
    SYNTAX_SQLSTATE,
    EmptyStatement,
    InvalidStatement,
    MultipleStatements,
    Position,
    StatementTooComplex,
    StatementTooLarge,
)
from headrace.grammar.blocks import block_end
from headrace.grammar.clauses import Options, override_options
from headrace.grammar.lexer import Token, TokenKind, code_tokens, skip_all_but, tokenize
from headrace.grammar.materialized_views import (
    MaterializedViewCommand,
    parse_create_materialized_view,
    parse_materialized_view_statement,
    parse_show_materialized_views,
    refuse_expectations_of_plain_view,
)
from headrace.grammar.metadata import ListedObjects, ListObjects, parse_list_objects
from headrace.grammar.script import statement_spans
from headrace.grammar.stream_statements import (
    CreateSink,
    SaveStream,
    StreamStatement,
    parse_create_sink,
    parse_create_stream,
    parse_drop_definition,
    parse_query_statement,
    parse_save_stream,
    parse_show_definitions,
)
from headrace.grammar.text import LEVEL_WORDS, MAX_OWN, check_nesting, check_text, position_at

_SYNTAX = "write CANCEL STATEMENT 'st_…'"


@dataclass(frozen=True, slots=True)
class CancelStatement:
    """A parsed `CANCEL STATEMENT 'id'`."""

    kind: ClassVar[str] = "local"

    statement_id: str


def parse_cancel_statement(text: str, tokens: Sequence[Token]) -> CancelStatement:
    """Parse a text that begins with `CANCEL STATEMENT`.

    Args:
        tokens: The tokens of the text, without comments and `;`.

    Raises:
        InvalidStatement: With the position, unless exactly one quoted id follows.
    """
    arguments = tokens[2:]
    if not arguments:
        raise InvalidStatement(
            f"CANCEL STATEMENT needs the id of a statement: {_SYNTAX}.",
            position=position_at(text, tokens[-1].end),
        ).with_condition(PARSE_SYNTAX_ERROR, SYNTAX_SQLSTATE)
    statement_id = arguments[0]
    if statement_id.kind is not TokenKind.QUOTED or text[statement_id.start] not in "'\"":
        raise _unexpected(text, statement_id, _SYNTAX)
    if len(arguments) > 1:
        raise _unexpected(text, arguments[1], f"{_SYNTAX} and nothing else")
    return CancelStatement(text[statement_id.start + 1 : statement_id.end - 1])


def _unexpected(text: str, token: Token, expected: str) -> InvalidStatement:
    return InvalidStatement(
        f"{text[token.start : token.end]!r} is not expected here: {expected}.",
        position=position_at(text, token.start),
    ).with_condition(PARSE_SYNTAX_ERROR, SYNTAX_SQLSTATE)


Command = CancelStatement | StreamStatement | MaterializedViewCommand | ListObjects
"""A parsed statement of Headrace's own. The `kind` of its class is the kind of its session."""

_Parser = Callable[[str, Sequence[Token]], Command]

_PARSERS: dict[str, _Parser] = {
    "CANCEL STATEMENT": parse_cancel_statement,
    "CREATE STREAM": parse_create_stream,
    "CREATE OR REPLACE STREAM": parse_create_stream,
    "CREATE SINK": parse_create_sink,
    "CREATE OR REPLACE SINK": parse_create_sink,
    "SAVE STREAM": parse_save_stream,
    "STOP STREAM": parse_query_statement,
    "PAUSE STREAM": parse_query_statement,
    "RESUME STREAM": parse_query_statement,
    "RESTART STREAM": parse_query_statement,
    "RETRY STREAM": parse_query_statement,
    "SHOW STREAM": parse_query_statement,
    "SHOW STREAMS": parse_show_definitions,
    "SHOW SINKS": parse_show_definitions,
    "DROP STREAM": parse_drop_definition,
    "DROP SINK": parse_drop_definition,
    "CREATE MATERIALIZED VIEW": parse_create_materialized_view,
    "REFRESH MATERIALIZED VIEW": parse_materialized_view_statement,
    "DROP MATERIALIZED VIEW": parse_materialized_view_statement,
    "DESCRIBE MATERIALIZED VIEW": parse_materialized_view_statement,
    "SHOW MATERIALIZED VIEWS": parse_show_materialized_views,
    **{f"LIST {objects}": parse_list_objects for objects in ListedObjects},
}
"""Parser of each reserved statement, by its first words."""

_BY_WORDS = {tuple(keyword.split()): keyword for keyword in _PARSERS}
_LONGEST_KEYWORD = max(map(len, _BY_WORDS))

_NONE: frozenset[str] = frozenset()
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_DOUBTFUL_WORDS = {
    **dict.fromkeys(("SELECT", "VALUES", "DESCRIBE", "DESC"), _NONE),
    **dict.fromkeys(("WITH", "FROM", "TABLE", "("), _CHANGES),
    # Spark runs the text of an EXECUTE IMMEDIATE while it analyses the statement.
    "EXPLAIN": frozenset({"EXECUTE"}),
    # Spark lists the catalogs that the session has used. A clone of the session has used none.
    "SHOW": frozenset({"CATALOGS"}),
}
"""First words of pure queries, each with the words that make it doubtful that it is one."""
_FIRST_TOKENS = 64
"""Tokens at the begin of a statement that are all read: they show what statement it is."""
_MAX_TOKENS = 500_000
"""Tokens of a long text that are kept in memory: some 100 MB."""
_LONG_TEXT = skip_all_but(frozenset().union(*_DOUBTFUL_WORDS.values(), LEVEL_WORDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedStatement:
    """The properties of a statement that decide where and how it runs."""

    kind: str
    """The kind of session that the statement needs: `interactive` for a statement of Spark's."""
    is_query: bool
    """Whether the text is certainly a pure query, which may be retried and run beside others."""
    command: Command | None
    """The parsed statement, if it is one of Headrace's own; None for a statement of Spark's."""
    keyword: str | None
    """First words of a statement of Headrace's own, without OR REPLACE; None for one of Spark's."""
    position: Position
    """Position of the first word."""


def parse(text: str, *, reserved: bool = True) -> ParsedStatement:
    """Parse the text of one statement.

    Args:
        reserved: Whether Headrace's own statements are recognised. If not, all texts are Spark's.

    Raises:
        StatementTooLarge: If the text is larger than 10 MiB, or than 1 MiB for a statement of
            Headrace's own and for a scripting block.
        InvalidText: If the text contains a NUL or an unpaired surrogate.
        EmptyStatement: If the text contains only white space, comments and `;`.
        MultipleStatements: With the position of the second statement, if there is one.
        StatementTooComplex: With the position, if the text is nested too deeply.
        InvalidStatement: With the position, for a syntax error in a statement of Headrace's own.
    """
    check_text(text)
    tokens = _list_tokens(text)
    words = [token for token in tokens if token.word != ";"]
    if not words:
        raise EmptyStatement
    _check_single(text, tokens)
    check_nesting(text, tokens)
    position = position_at(text, words[0].start)
    keyword = reserved_keyword(words) if reserved else None
    if keyword is not None and len(text.encode()) > MAX_OWN:
        raise StatementTooLarge(f"{keyword} has at most 1 MiB ({MAX_OWN} bytes in UTF-8).")
    if reserved and keyword is None:
        refuse_expectations_of_plain_view(text, words)
    command = None if keyword is None else _PARSERS[keyword](text, words)
    return ParsedStatement(
        kind="interactive" if command is None else command.kind,
        is_query=isinstance(command, ListObjects) or (command is None and _is_query(text, tokens)),
        command=command,
        keyword=None if keyword is None else keyword.replace(" OR REPLACE", ""),
        position=position,
    )


def find_sink_options(texts: Iterable[str]) -> Options:
    """Return the options of the sink of a streaming query: those of its statements together.

    Args:
        texts: The definitions that the query needs, and its SAVE STREAM. Later ones win.
    """
    options: Options = ()
    for text in texts:
        command = parse(text).command
        if isinstance(command, CreateSink | SaveStream):
            options = override_options(options, command.options)
    return options


def reserved_keyword(words: Sequence[Token]) -> str | None:
    """Return the first words of a reserved statement, for example `SAVE STREAM`.

    Return None if the tokens begin a statement of Spark's.
    """
    first = tuple(token.word for token in words[:_LONGEST_KEYWORD])
    lengths = range(2, len(first) + 1)
    return next((_BY_WORDS[first[:n]] for n in lengths if first[:n] in _BY_WORDS), None)


def _list_tokens(text: str) -> list[Token]:
    """Return the tokens of a text without its comments; of a long text only those that matter.

    Raise StatementTooComplex, and StatementTooLarge for a scripting block that is too long.
    """
    if len(text) <= MAX_OWN:
        return list(code_tokens(text))
    code = (each for each in _read_long(text) if each.kind is not TokenKind.COMMENT)
    tokens = list(islice(code, _MAX_TOKENS + 1))
    if len(tokens) > _MAX_TOKENS:
        raise StatementTooComplex(
            f"The statement has more than {_MAX_TOKENS} brackets, CASE and END.",
            hint="Divide the statement into several less complex ones.",
        )
    if tokens and block_end(tokens, 0):
        raise StatementTooLarge(f"A scripting block has at most {MAX_OWN} characters.")
    return tokens


def _read_long(text: str) -> Iterator[Token]:
    """Yield the first tokens of each statement of a text, and of the others those that matter."""
    at = 0
    while True:
        begin = list(islice(tokenize(text, at), _FIRST_TOKENS))
        yield from begin
        if len(begin) < _FIRST_TOKENS:
            return
        at = begin[-1].end
        if begin[-1].word == ";":
            continue
        for token in tokenize(text, at, _LONG_TEXT):
            yield token
            at = token.end
            if token.word == ";":
                break
        else:
            return


def _check_single(text: str, tokens: Sequence[Token]) -> None:
    spans = list(statement_spans(text, tokens))
    if len(spans) > 1:
        second = spans[1][2]
        raise MultipleStatements(
            f"The text contains {len(spans)} statements; a request takes one.",
            position=position_at(text, second.start),
            hint="Send them one by one. A path with `;` needs quotes: ADD JAR '/a;b.jar'.",
        )


def _is_query(text: str, tokens: Sequence[Token]) -> bool:
    """Return whether the words alone show that a text cannot change anything.

    `WITH … INSERT` and `FROM … INSERT` change tables. In doubtful cases the answer is False, for
    example for a column named `update`, or for `${…}`, which can stand for any text.
    """
    first, *rest = tokens
    doubtful = _DOUBTFUL_WORDS.get(first.word)
    if doubtful is None or "${" in text:
        return False
    if any(token.kind is TokenKind.UNREADABLE for token in rest):
        return False
    return all(token.word not in doubtful for token in rest)
