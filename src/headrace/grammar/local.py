"""Statements that a node does by itself, without a driver."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import InvalidStatement
from headrace.grammar.text import position_at
from headrace.grammar.tokens import Token, TokenKind, code_tokens

_QUOTES = "'\""


@dataclass(frozen=True, slots=True)
class CancelStatement:
    """`CANCEL STATEMENT 'id'`."""

    statement_id: str


def parse_local(text: str) -> CancelStatement:
    """A text that begins with `CANCEL STATEMENT`.

    Raises InvalidStatement, with its position, when no id in quotes follows, or anything after it.
    """
    found = [token for token in code_tokens(text) if token.word != ";"]
    rest = found[2:]
    wanted = "write CANCEL STATEMENT 'st_…'"
    if not rest:
        raise InvalidStatement(
            f"CANCEL STATEMENT names no statement: {wanted}.",
            position=position_at(text, found[-1].end),
        )
    if rest[0].kind is not TokenKind.QUOTED or text[rest[0].start] not in _QUOTES:
        raise _unexpected(text, rest[0], wanted)
    if len(rest) > 1:
        raise _unexpected(text, rest[1], f"{wanted} and nothing else")
    return CancelStatement(text[rest[0].start + 1 : rest[0].end - 1])


def _unexpected(text: str, token: Token, wanted: str) -> InvalidStatement:
    return InvalidStatement(
        f"{text[token.start : token.end]!r} is not expected here: {wanted}.",
        position=position_at(text, token.start),
    )
