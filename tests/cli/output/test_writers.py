from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.output.base import OutputColumn
from headrace.cli.output.formats import OutputFormat, writer
from headrace.cli.output.text import Number, as_json, pad, shown, width
from headrace.errors import FormatCannotHold

TEXTS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))
ROWS = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.lists(TEXTS, min_size=size, max_size=size), max_size=5)
)


def written(format_: OutputFormat, rows: Sequence[Sequence[Any]], *types: str) -> str:
    names = types or ["string"] * (len(rows[0]) if rows else 1)
    columns = [OutputColumn(f"c{index}", name) for index, name in enumerate(names)]
    out = io.StringIO(newline="")
    to = writer(format_, out, columns, rows, colour=False)
    to.begin(columns, rows)
    for row in rows:  # as if each came in a chunk of its own
        to.rows([row])
    to.end()
    return out.getvalue()


@given(ROWS)
def test_csv_is_read_back(rows: list[list[str | None]]) -> None:
    read = list(csv.reader(io.StringIO(written(OutputFormat.CSV, rows), newline="")))[1:]
    told = [["" if value is None else value for value in row] for row in rows]
    assert [row or [""] for row in read] == told


@given(TEXTS)
def test_csv_tells_null_from_empty(value: str | None) -> None:
    line = written(OutputFormat.CSV, [[value, "x"]]).partition("\n")[2]
    assert (line == ",x\n") is (value is None)


@given(ROWS)
def test_tsv_is_read_back(rows: list[list[str | None]]) -> None:
    escapes = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}

    def value(cell: str) -> str | None:
        if cell == "\\N":
            return None
        parts = iter(cell)
        return "".join(escapes[char + next(parts)] if char == "\\" else char for char in parts)

    lines = written(OutputFormat.TSV, rows).split("\n")[1:-1]
    assert [[value(cell) for cell in line.split("\t")] for line in lines] == rows


@given(ROWS)
def test_both_forms_of_json_are_read_back(rows: list[list[str | None]]) -> None:
    objects = [{f"c{index}": value for index, value in enumerate(row)} for row in rows]
    assert json.loads(written(OutputFormat.JSON, rows)) == objects
    lines = written(OutputFormat.JSONL, rows).split("\n")[:-1]
    assert [json.loads(line) for line in lines] == objects


def test_any_name_can_be_a_key() -> None:
    columns = [OutputColumn(name, "int") for name in ("50%", '"q"', "", "%s")]
    out = io.StringIO()
    to = writer(OutputFormat.JSONL, out, columns, [], colour=False)
    to.begin(columns, [])
    to.rows([[1, 2, 3, 4]])
    assert json.loads(out.getvalue()) == {"50%": 1, '"q"': 2, "": 3, "%s": 4}


def test_json_is_a_row_a_line() -> None:
    assert written(OutputFormat.JSON, [[1], [2]]) == '[{"c0": 1},\n {"c0": 2}]\n'
    assert written(OutputFormat.JSON, []) == "[]\n"
    assert written(OutputFormat.JSONL, []) == ""


def test_numbers_stay_as_they_were_written() -> None:
    row = json.loads('[1.10, 1e400, [2.50, {"a": 12345678901234567890}]]', parse_float=Number)
    assert written(OutputFormat.CSV, [row]).splitlines()[1] == (
        '1.10,1e400,"[2.50, {""a"": 12345678901234567890}]"'
    )
    assert written(OutputFormat.JSONL, [row]) == (
        '{"c0": 1.10, "c1": 1e400, "c2": [2.50, {"a": 12345678901234567890}]}\n'
    )


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_of_values(value: Any) -> None:
    assert json.loads(as_json(value)) == value


def test_json_refuses_names_that_repeat_and_tells_them() -> None:
    columns = [OutputColumn(name, "int") for name in ("a", "b", "a", "c", "c", "A")]
    for format_ in (OutputFormat.JSON, OutputFormat.JSONL):
        out = io.StringIO()
        with pytest.raises(FormatCannotHold, match=r"one name: a, c\."):
            writer(format_, out, columns, [], colour=False).begin(columns, [])
        assert out.getvalue() == ""


def test_markdown() -> None:
    assert written(OutputFormat.MARKDOWN, [["a|b\\", ""], ["x\ny", None]]) == (
        "| c0 | c1 |\n| --- | --- |\n| a\\|b\\\\ |  |\n| x<br>y | NULL |\n"
    )


def test_table_and_vertical_without_a_terminal_that_can_draw() -> None:
    rows = [[1, "x"], [10, None]]
    assert written(OutputFormat.TABLE, rows, "int", "string") == (
        " c0 | c1\n----+------\n  1 | x\n 10 | NULL\n"
    )
    head = "-[ 1 ]".ljust(40, "-")
    assert written(OutputFormat.VERTICAL, rows[:1], "int", "string") == f"{head}\nc0 | 1\nc1 | x\n"


def test_a_longer_value_further_down_stays_whole() -> None:
    columns = [OutputColumn("a", "string"), OutputColumn("b", "string")]
    out = io.StringIO()
    to = writer(OutputFormat.TABLE, out, columns, [["x", "y"]], colour=False)
    to.begin(columns, [["x", "y"]])
    to.rows([["x", "y"], ["longer", "y"]])
    assert out.getvalue().splitlines()[2:] == [" x | y", " longer | y"]


@given(st.text())
def test_what_is_shown_cannot_steer_a_terminal(text: str) -> None:
    steering = {"Cc", "Cf", "Zl", "Zp"}
    assert not steering & {unicodedata.category(char) for char in shown(text)}


def test_widths() -> None:
    assert [width(text) for text in ("abc", "日本", "e\u0301")] == [3, 4, 1]
    assert pad("日", 4) == "日  "
    assert pad("日", 4, right=True) == "  日"
    assert pad("longer", 2) == "longer"
