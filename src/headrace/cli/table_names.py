"""Names in the arguments of commands, which become parts of statements."""

from __future__ import annotations

from headrace.errors import InvalidRequest
from headrace.grammar.lexer import TokenKind, code_tokens
from headrace.grammar.quoting import quote_string, unquote_name


def parse_name(text: str) -> str:
    """Return a name such as `db.sales` as it can stand in a statement.

    Raises InvalidRequest for any other text, so that an argument is never run as SQL.
    """
    tokens = list(code_tokens(text))
    expected_name = True
    for token in tokens:
        is_dot = token.word == "."
        quoted = token.kind is TokenKind.QUOTED and text[token.start] == "`"
        is_name = token.kind is TokenKind.WORD or quoted
        if is_dot == expected_name or not (is_dot or is_name):
            raise _invalid_name(text)
        expected_name = is_dot
    if expected_name:
        raise _invalid_name(text)
    return "".join(text[token.start : token.end] for token in tokens)


def parse_pattern(text: str) -> str | None:
    """Return the clauses of SHOW TABLES for `db.*` or `sal*`; None for a text without `*`."""
    if "*" not in text:
        return None
    database, dot, pattern = text.rpartition(".")
    within = f"IN {parse_name(database)} " if dot else ""
    return f"{within}LIKE {quote_string(pattern)}"


def parse_listing(text: str) -> str:
    """Return the clauses of SHOW for nothing, a name, or a pattern such as `db.*` or `sal*`."""
    if not text:
        return ""
    pattern = parse_pattern(text)
    if pattern is not None:
        return pattern
    database, dot, name = text.rpartition(".")
    within = f"IN {parse_name(database)} " if dot else ""
    return f"{within}LIKE {quote_string(unquote_name(parse_name(name)))}"


def _invalid_name(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text!r} is not a name.", hint="write NAME, or DATABASE.NAME; quote others in backticks"
    )
