from __future__ import annotations

import pytest

from headrace.errors import InvalidText, Position, StatementTooLarge
from headrace.grammar.text import MAX_BYTES, check_text, position_at


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", " /* c */ SELECT 1 -- c", "é", "'", "/* not closed", "/*+ hint */", "\ufeffx"],
)
def test_ordinary_texts_are_accepted(text: str) -> None:
    check_text(text)


def test_the_limit_counts_bytes_in_utf8() -> None:
    check_text("x" * MAX_BYTES)
    with pytest.raises(StatementTooLarge):
        check_text("x" * (MAX_BYTES + 1))
    check_text("é" * (MAX_BYTES // 2))
    with pytest.raises(StatementTooLarge):
        check_text("é" * (MAX_BYTES // 2) + "x")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("SELECT '\0'", 1, 9), ("SELECT\r\n\0", 2, 1), ("a\n\ud800", 2, 1), ("😀\udfff;", 1, 2)],
)
def test_nul_and_unpaired_surrogates_are_refused_with_their_position(
    text: str, line: int, column: int
) -> None:
    with pytest.raises(InvalidText) as caught:
        check_text(text)
    assert caught.value.position == Position(line, column)


@pytest.mark.parametrize(
    ("text", "offset", "line", "column"),
    [
        ("", 0, 1, 1),
        ("abc", 2, 1, 3),
        ("a\nbc", 1, 1, 2),
        ("a\nbc", 2, 2, 1),
        ("a\r\nbc", 2, 1, 3),
        ("a\r\nbc", 4, 2, 2),
        ("😀é\n🜂x", 4, 2, 2),
        ("ab", 2, 1, 3),
    ],
)
def test_positions_count_code_points(text: str, offset: int, line: int, column: int) -> None:
    assert position_at(text, offset) == Position(line, column)
