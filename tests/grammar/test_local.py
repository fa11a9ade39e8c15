"""Statements that a node does by itself."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidStatement, Position
from headrace.grammar.local import CancelStatement, parse_local
from headrace.grammar.statements import is_local


@pytest.mark.parametrize(
    "text",
    [
        "CANCEL STATEMENT 'st_1'",
        'cancel statement "st_1";',
        "/* a */ Cancel\n  Statement -- b\n 'st_1' ; ;",
    ],
)
def test_a_cancel_names_its_statement(text: str) -> None:
    assert is_local(text)
    assert parse_local(text) == CancelStatement("st_1")


@pytest.mark.parametrize("text", ["SELECT 'CANCEL STATEMENT'", "CANCEL", "SHOW STREAMS", ""])
def test_everything_else_is_not_local(text: str) -> None:
    assert not is_local(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("CANCEL STATEMENT", 1, 17, "names no statement"),
        ("CANCEL STATEMENT;", 1, 17, "names no statement"),
        ("CANCEL STATEMENT\n  st_1", 2, 3, "'st_1' is not expected"),
        ("CANCEL STATEMENT `st_1`", 1, 18, "is not expected"),
        ("CANCEL STATEMENT 'st_1' NOW", 1, 25, "'NOW' is not expected"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(InvalidStatement, match=words) as caught:
        parse_local(text)
    assert caught.value.position == Position(line, column)
