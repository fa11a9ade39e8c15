"""The syntax of `CANCEL STATEMENT`."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidStatement, Position
from headrace.grammar.parse import CancelStatement, parse


@pytest.mark.parametrize(
    "text",
    [
        "CANCEL STATEMENT 'st_1'",
        'cancel statement "st_1";',
        "/* a */ Cancel\n  Statement -- b\n 'st_1' ; ;",
    ],
)
def test_the_statement_id_stands_in_quotes(text: str) -> None:
    assert parse(text).command == CancelStatement("st_1")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("CANCEL STATEMENT", 1, 17, "needs the id of a statement"),
        ("CANCEL STATEMENT;", 1, 17, "needs the id of a statement"),
        ("CANCEL STATEMENT\n  st_1", 2, 3, "'st_1' is not expected"),
        ("CANCEL STATEMENT `st_1`", 1, 18, "is not expected"),
        ("CANCEL STATEMENT 'st_1' NOW", 1, 25, "'NOW' is not expected"),
    ],
)
def test_a_syntax_error_names_its_position(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(InvalidStatement, match=message) as caught:
        parse(text)
    assert caught.value.position == Position(line, column)
