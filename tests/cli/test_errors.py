from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.output.text import display_width
from headrace.cli.support.script import Source, split_sources
from headrace.cli.support.terminal import ErrorPrinter, format_excerpt
from headrace.errors import HeadraceError, InvalidText, Position


def split_at_caret(line: str, column: int) -> tuple[str, str]:
    """Return the excerpt of a line, and the part of the excerpt to the left of the caret."""
    source_row, caret_row, end = format_excerpt(line, Position(1, column)).split("\n")
    assert end == ""
    caret = display_width(caret_row) - 1
    excerpt = source_row.partition("│ ")[2]
    before_caret = ""
    for char in excerpt:
        if display_width("   1 │ " + before_caret) >= caret:
            break
        before_caret += char
    return excerpt, before_caret


def test_the_caret_is_below_the_column() -> None:
    assert format_excerpt("SELEC 1", Position(3, 1)) == "   3 │ SELEC 1\n     │ ^\n"
    assert format_excerpt("\tx y", Position(1, 4)).split("\n")[1] == "     │ \t  ^"
    assert split_at_caret("SELECT '日本', x", 14) == ("SELECT '日本', x", "SELECT '日本', ")


def test_a_column_after_the_line_puts_the_caret_at_its_end() -> None:
    assert format_excerpt("SELECT", Position(1, 7)).split("\n")[1] == "     │       ^"
    assert format_excerpt("", Position(1, 1)) == "   1 │ \n     │ ^\n"


@given(st.integers(1, 400))
def test_a_long_line_is_shortened_to_the_part_around_the_caret(column: int) -> None:
    line = "".join(chr(0x100 + number) for number in range(400))
    excerpt, before_caret = split_at_caret(line, column)
    assert len(excerpt) <= 104
    assert excerpt.removeprefix(before_caret)[0] == line[column - 1]


@given(
    st.lists(st.sampled_from(["SELECT 1", "SELECT\n 'a;'", "X", "-- c\nY"]), min_size=1), st.data()
)
def test_a_position_in_a_statement_is_converted_to_its_file(
    texts: list[str], data: st.DataObject
) -> None:
    source = Source("s.sql", " ;\n\n ".join(texts))
    for statement in split_sources([source]):
        lines = statement.text.split("\n")
        line = data.draw(st.integers(1, len(lines)))
        column = data.draw(st.integers(1, len(lines[line - 1])))
        position = statement.locate(Position(line, column))
        assert source.line(position.line)[position.column - 1] == lines[line - 1][column - 1]


def test_hints_are_printed_and_further_lines_with_debug_only() -> None:
    error = HeadraceError("Summary.\nDetails.", hint="do this")
    for debug, details in ((False, ""), (True, "Details.\n")):
        out = io.StringIO()
        ErrorPrinter(out, colour=False, debug=debug).print_error(error)
        assert out.getvalue() == f"error: Summary.\n{details}hint: do this\n"


def test_an_error_without_position_names_the_line_of_the_statement() -> None:
    (_, statement) = split_sources([Source("s.sql", "SELECT 1;\n\nSELECT 2")])
    out = io.StringIO()
    ErrorPrinter(out, colour=False, debug=False).print_error(InvalidText("Bad."), statement)
    assert out.getvalue() == "error: s.sql:3, statement 2: Bad.\n"


def test_a_failure_of_another_commands_statement_shows_its_text() -> None:
    out = io.StringIO()
    failure = {"message": "Bad.", "line": 2, "column": 3}
    printer = ErrorPrinter(out, colour=False, debug=False)
    printer.print_failure(failure, text="SELECT\n  b\r\n")
    assert out.getvalue() == "error: Bad. (line 2, column 3)\n   2 │   b\n     │   ^\n"
