from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.errors import ErrorPrinter, excerpt
from headrace.cli.output.text import width
from headrace.cli.script import Source, split
from headrace.errors import HeadraceError, InvalidText, Position


def caret(line: str, column: int) -> tuple[str, str]:
    """What is shown of the line, and that part of it which stands left of the caret."""
    shown, below, end = excerpt(line, Position(1, column)).split("\n")
    assert end == ""
    at = width(below) - 1
    text = shown.partition("│ ")[2]
    left = ""
    for char in text:
        if width("   1 │ " + left) >= at:
            break
        left += char
    return text, left


def test_the_caret_stands_below_the_column() -> None:
    assert excerpt("SELEC 1", Position(3, 1)) == "   3 │ SELEC 1\n     │ ^\n"
    assert excerpt("\tx y", Position(1, 4)).split("\n")[1] == "     │ \t  ^"
    assert caret("SELECT '日本', x", 14) == ("SELECT '日本', x", "SELECT '日本', ")


def test_a_column_behind_the_end_is_the_end() -> None:
    assert excerpt("SELECT", Position(1, 7)).split("\n")[1] == "     │       ^"
    assert excerpt("", Position(1, 1)) == "   1 │ \n     │ ^\n"


@given(st.integers(1, 400))
def test_of_a_long_line_the_part_around_the_caret_is_shown(column: int) -> None:
    line = "".join(chr(0x100 + number) for number in range(400))
    text, left = caret(line, column)
    assert len(text) <= 104
    assert text.removeprefix(left)[0] == line[column - 1]


@given(
    st.lists(st.sampled_from(["SELECT 1", "SELECT\n 'a;'", "X", "-- c\nY"]), min_size=1), st.data()
)
def test_a_position_in_a_piece_is_one_in_its_file(texts: list[str], data: st.DataObject) -> None:
    source = Source("s.sql", " ;\n\n ".join(texts))
    for piece in split([source]):
        lines = piece.text.split("\n")
        line = data.draw(st.integers(1, len(lines)))
        column = data.draw(st.integers(1, len(lines[line - 1])))
        there = piece.position(Position(line, column))
        assert source.line(there.line)[there.column - 1] == lines[line - 1][column - 1]


def test_hints_are_told_and_only_debug_shows_more_lines() -> None:
    error = HeadraceError("One.\nTwo.", hint="do this")
    for debug, more in ((False, ""), (True, "Two.\n")):
        out = io.StringIO()
        ErrorPrinter(out, colour=False, debug=debug).error(error)
        assert out.getvalue() == f"error: One.\n{more}hint: do this\n"


def test_an_error_of_a_file_names_the_line_where_its_statement_begins() -> None:
    (_, piece) = split([Source("s.sql", "SELECT 1;\n\nSELECT 2")])
    out = io.StringIO()
    ErrorPrinter(out, colour=False, debug=False).error(InvalidText("Bad."), piece)
    assert out.getvalue() == "error: s.sql:3, statement 2: Bad.\n"
