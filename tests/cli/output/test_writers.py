from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.cli.output.formats import OutputFormat, make_writer
from headrace.cli.output.table import TableWriter
from headrace.cli.output.text import (
    Number,
    cut,
    display_width,
    pad,
    to_json,
    to_printable,
    to_printable_lines,
)
from headrace.cli.output.widths import fit_widths, measure_cell
from headrace.cli.output.writers import OutputColumn
from headrace.errors import FormatCannotHold

TEXTS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))
ROWS = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.lists(TEXTS, min_size=size, max_size=size), max_size=5)
)


def write(format_: OutputFormat, rows: Sequence[Sequence[Any]], *types: str) -> str:
    """Return the output for these rows; each row is a chunk of its own."""
    names = types or ["string"] * (len(rows[0]) if rows else 1)
    columns = [OutputColumn(f"c{index}", name) for index, name in enumerate(names)]
    out = io.StringIO(newline="")
    writer = make_writer(format_, out, columns, rows, colour=False)
    writer.begin(columns, rows)
    for row in rows:
        writer.write_rows([row])
    writer.end()
    return out.getvalue()


@given(ROWS)
def test_csv_output_is_read_back_by_a_csv_parser(rows: list[list[str | None]]) -> None:
    read = list(csv.reader(io.StringIO(write(OutputFormat.CSV, rows), newline="")))[1:]
    expected = [["" if value is None else value for value in row] for row in rows]
    assert [row or [""] for row in read] == expected


@given(TEXTS)
def test_csv_distinguishes_null_from_an_empty_string(value: str | None) -> None:
    line = write(OutputFormat.CSV, [[value, "x"]]).partition("\n")[2]
    assert (line == ",x\n") is (value is None)


@given(ROWS)
def test_tsv_output_is_read_back(rows: list[list[str | None]]) -> None:
    escapes = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}

    def value(cell: str) -> str | None:
        if cell == "\\N":
            return None
        parts = iter(cell)
        return "".join(escapes[char + next(parts)] if char == "\\" else char for char in parts)

    lines = write(OutputFormat.TSV, rows).split("\n")[1:-1]
    assert [[value(cell) for cell in line.split("\t")] for line in lines] == rows


@given(ROWS)
def test_json_and_jsonl_output_is_read_back_by_a_json_parser(rows: list[list[str | None]]) -> None:
    objects = [{f"c{index}": value for index, value in enumerate(row)} for row in rows]
    assert json.loads(write(OutputFormat.JSON, rows)) == objects
    lines = write(OutputFormat.JSONL, rows).split("\n")[:-1]
    assert [json.loads(line) for line in lines] == objects


def test_column_names_with_special_characters_are_json_keys() -> None:
    columns = [OutputColumn(name, "int") for name in ("50%", '"q"', "", "%s")]
    out = io.StringIO()
    writer = make_writer(OutputFormat.JSONL, out, columns, [], colour=False)
    writer.begin(columns, [])
    writer.write_rows([[1, 2, 3, 4]])
    assert json.loads(out.getvalue()) == {"50%": 1, '"q"': 2, "": 3, "%s": 4}


def test_json_output_has_one_row_per_line() -> None:
    assert write(OutputFormat.JSON, [[1], [2]]) == '[{"c0": 1},\n {"c0": 2}]\n'
    assert write(OutputFormat.JSON, []) == "[]\n"
    assert write(OutputFormat.JSONL, []) == ""


def test_numbers_keep_all_their_digits() -> None:
    row = json.loads('[1.10, 1e400, [2.50, {"a": 12345678901234567890}]]', parse_float=Number)
    assert write(OutputFormat.CSV, [row]).splitlines()[1] == (
        '1.10,1e400,"[2.50, {""a"": 12345678901234567890}]"'
    )
    assert write(OutputFormat.JSONL, [row]) == (
        '{"c0": 1.10, "c1": 1e400, "c2": [2.50, {"a": 12345678901234567890}]}\n'
    )


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_values_are_converted_to_valid_json(value: Any) -> None:
    assert json.loads(to_json(value)) == value


def test_json_refuses_duplicate_column_names_and_lists_them() -> None:
    columns = [OutputColumn(name, "int") for name in ("a", "b", "a", "c", "c", "A")]
    for format_ in (OutputFormat.JSON, OutputFormat.JSONL):
        out = io.StringIO()
        with pytest.raises(FormatCannotHold, match=r"the same name: a, c\."):
            make_writer(format_, out, columns, [], colour=False).begin(columns, [])
        assert out.getvalue() == ""


def test_markdown_escapes_pipes_and_line_breaks() -> None:
    assert write(OutputFormat.MARKDOWN, [["a|b\\", ""], ["x\ny", None]]) == (
        "| c0 | c1 |\n| --- | --- |\n| a\\|b\\\\ |  |\n| x<br>y | NULL |\n"
    )


def test_table_and_vertical_use_ascii_lines_without_utf8() -> None:
    rows = [[1, "x"], [10, None]]
    assert write(OutputFormat.TABLE, rows, "int", "string") == (
        " c0 | c1\n----+------\n  1 | x\n 10 | NULL\n"
    )
    head = "-[ 1 ]".ljust(40, "-")
    assert write(OutputFormat.VERTICAL, rows[:1], "int", "string") == f"{head}\nc0 | 1\nc1 | x\n"


def test_a_value_longer_than_its_column_is_not_cut() -> None:
    columns = [OutputColumn("a", "string"), OutputColumn("b", "string")]
    out = io.StringIO()
    writer = make_writer(OutputFormat.TABLE, out, columns, [["x", "y"]], colour=False)
    writer.begin(columns, [["x", "y"]])
    writer.write_rows([["x", "y"], ["longer", "y"]])
    assert out.getvalue().splitlines()[2:] == [" x | y", " longer | y"]


def test_line_breaks_in_a_value_are_line_breaks_of_the_table() -> None:
    rows = [[1, "a\n\tb", "x"], [2, "", None]]
    types = ("int", "string", "string")
    assert write(OutputFormat.TABLE, rows, *types) == (
        " c0 | c1  | c2\n----+-----+------\n  1 | a\\  | x\n    | \\tb |\n  2 |     | NULL\n"
    )
    assert write(OutputFormat.VERTICAL, rows[:1], *types).splitlines()[1:] == [
        "c0 | 1",
        "c1 | a",
        "   | \\tb",
        "c2 | x",
    ]


def test_a_table_keeps_the_spaces_at_the_end_of_its_last_value() -> None:
    assert write(OutputFormat.TABLE, [["a ", "b  "], ["", ""]]) == (
        " c0 | c1\n----+-----\n a  | b  \n    |\n"
    )


@given(ROWS)
@example([["0\u3000"]])
def test_a_table_for_a_file_has_every_value_whole(rows: list[list[str | None]]) -> None:
    text = write(OutputFormat.TABLE, rows)
    for row in rows:
        for value in row:
            assert all(line in text for line in to_printable_lines(value))


def test_columns_of_the_same_name_are_kept() -> None:
    columns = [OutputColumn("a", "int"), OutputColumn("a", "string"), OutputColumn("a", "int")]
    out = io.StringIO()
    writer = TableWriter(out, width=80)
    writer.begin(columns, [[1, "x", 2]])
    writer.write_rows([[1, "x", 2]])
    assert out.getvalue() == " a | a | a\n---+---+---\n 1 | x | 2\n"


CELLS = st.one_of(
    TEXTS, st.sampled_from(["日本" * 30, "👩‍👩‍👧" * 9, "❤️" * 50, "e\u0301" * 80, "a\nb"])
)


@given(st.lists(st.tuples(st.integers(0, 10**9), CELLS, CELLS), max_size=4), st.integers(45, 90))
def test_a_table_never_exceeds_the_terminal_and_reports_what_it_cuts(
    rows: list[tuple[int, str | None, str | None]], width: int
) -> None:
    columns = [OutputColumn(name, name) for name in ("int", "string", "string")]
    out, cut_counts = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), list[int]()
    writer = TableWriter(out, width=width, on_cut=cut_counts.append)
    writer.begin(columns, rows)
    writer.write_rows(rows)
    writer.end()
    out.flush()
    lines = out.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]
    assert max(map(display_width, lines)) <= width
    whole = [sum(line in "\n".join(lines) for line in to_printable_lines(row[1])) for row in rows]
    wanted = [len(to_printable_lines(row[1])) for row in rows]
    assert whole == wanted or cut_counts


@pytest.mark.parametrize(
    ("widths", "floors", "available", "fitted", "fits"),
    [
        ([5, 90, 40], [5, 10, 10], 75, [5, 35, 35], True),
        ([5, 90, 20], [5, 10, 10], 75, [5, 50, 20], True),
        ([5, 5], [5, 5], 20, [5, 5], True),
        ([30, 90], [30, 10], 35, [30, 10], False),
        ([10**9, 1], [10, 1], 40, [39, 1], True),
        ([], [], 80, [], True),
    ],
)
def test_the_widest_columns_shrink_first(
    widths: list[int], floors: list[int], available: int, fitted: list[int], fits: bool
) -> None:
    assert fit_widths(widths, floors, available) == (fitted, fits)


def test_the_width_of_a_value_includes_the_marks_of_its_line_breaks() -> None:
    assert [measure_cell(value) for value in ("ab", "ab\nc", "a\nbcd", None, 12)] == [2, 3, 3, 4, 2]


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("日本日本", 6, "日本…"),
        ("日本", 4, "日本"),
    ],
)
def test_a_cut_text_ends_with_a_mark(text: str, columns: int, shown: str) -> None:
    assert cut(text, columns) == shown
    assert display_width(shown) <= columns


@given(st.text())
def test_printable_text_contains_no_control_characters(text: str) -> None:
    control = {"Cc", "Cf", "Zl", "Zp"}
    assert not control & {unicodedata.category(char) for char in to_printable(text)}


def test_display_width_and_padding_count_terminal_columns() -> None:
    assert [display_width(text) for text in ("abc", "日本", "e\u0301", "❤️")] == [*(3, 4, 1, 2)]
    assert pad("日", 4) == "日  "
    assert pad("longer", 2) == "longer"
