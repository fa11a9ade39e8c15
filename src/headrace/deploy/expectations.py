"""Checks of the expectations in a manifest, as far as the text alone shows them.

Spark's parser and analyser check the conditions again when a run writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

from headrace.deploy.script_statements import TextProblem, describe_error
from headrace.errors import HeadraceError, Position
from headrace.grammar.lexer import Token, TokenKind, code_tokens
from headrace.grammar.text import check_text, position_at
from headrace.model.expectation import Condition, Expectation

_HINT = "Write a boolean expression over the columns of a row, for example `amount > 0`."
_OPENING = {")": "(", "]": "["}


def check_names(expectations: Sequence[Expectation]) -> None:
    """Raise TextProblem if two expectations have one name."""
    names = set[str]()
    for each in expectations:
        if each.name.casefold() in names:
            raise TextProblem(
                "duplicate_expectation",
                f"`expect` has two expectations with the name {each.name}.",
                hint="Rename one of them.",
            )
        names.add(each.name.casefold())


def _check_condition(text: str) -> str:
    """Return a condition. Raise TextProblem if it is not one expression over the columns."""
    try:
        check_text(text)
    except HeadraceError as error:
        raise describe_error(error, Position(1, 1)) from error
    tokens = list(code_tokens(text))
    if not tokens:
        raise TextProblem("invalid_condition", "The condition is empty.", hint=_HINT)
    opened = list[Token]()
    for token in tokens:
        _check_token(text, token)
        if token.word in _OPENING.values():
            opened.append(token)
        elif token.word in _OPENING and (not opened or opened.pop().word != _OPENING[token.word]):
            raise _refuse(text, token, f"`{token.word}` closes nothing")
    if opened:
        raise _refuse(text, opened[-1], f"`{opened[-1].word}` is not closed")
    return text


def _check_token(text: str, token: Token) -> None:
    if token.kind is TokenKind.UNREADABLE:
        raise _refuse(text, token, "a quote or a comment is not closed")
    if token.word == ";":
        raise _refuse(text, token, "it has a `;`")
    if token.word == "SELECT":
        raise _refuse(text, token, "it has a subquery")


def _refuse(text: str, token: Token, reason: str) -> TextProblem:
    return TextProblem(
        "invalid_condition",
        f"The condition is not valid: {reason}.",
        position=position_at(text, token.start),
        hint=_HINT,
    )


class CheckedExpectation(Expectation):
    """An expectation of a manifest, whose condition is one expression."""

    condition: Annotated[Condition, AfterValidator(_check_condition)]
    """See `Expectation`."""
