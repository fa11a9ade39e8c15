"""The statement `CANCEL STATEMENT 'id'`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.errors import InvalidStatement
from headrace.grammar.lexer import Token, TokenKind
from headrace.grammar.text import position_at

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
        )
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
    )
