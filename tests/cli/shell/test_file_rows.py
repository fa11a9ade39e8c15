"""Rows of local files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.shell.file_rows import read_rows
from headrace.errors import InvalidRequest


def rows(tmp_path: Path, name: str, content: str | bytes) -> list[tuple[int, dict[str, Any]]]:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_rows(file))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_distinguishes_null_from_an_empty_string(tmp_path: Path, end: str) -> None:
    content = end.join(["\ufeffa,b", ',""', '"x, ""y""",2', f'"two{end}lines",', ""])
    assert rows(tmp_path, "f.csv", content) == [
        (2, {"a": None, "b": ""}),
        (3, {"a": 'x, "y"', "b": "2"}),
        (4, {"a": f"two{end}lines", "b": None}),
    ]


def test_a_long_quoted_field_takes_linear_time(tmp_path: Path) -> None:
    begin = time.process_time()
    field = '""x\n' * 200_000
    (row,) = rows(tmp_path, "f.csv", f'a\n"{field}"\n')
    assert row == (2, {"a": field.replace('""', '"')})
    assert time.process_time() - begin < 5  # 10 s and more if each line reads all lines before it


def test_an_empty_line_is_null_in_a_file_with_one_column(tmp_path: Path) -> None:
    assert rows(tmp_path, "f.csv", "a\n\nx") == [(2, {"a": None}), (3, {"a": "x"})]
    assert rows(tmp_path, "f.csv", "a,b\n\n1,2\n\n") == [(3, {"a": "1", "b": "2"})]


@pytest.mark.parametrize("name", ["f.json", "f.jsonl"])
@pytest.mark.parametrize(
    "content",
    ['{"a": 1.10, "b": [1]}\n\n{"a": null}\n', '[{"a": 1.10, "b": [1]},\n {"a": null}]\n'],
)
def test_json_lines_and_arrays(tmp_path: Path, name: str, content: str) -> None:
    read = [row for _, row in rows(tmp_path, name, content)]
    assert read == [{"a": "1.10", "b": ["1"]}, {"a": None}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.xml", "", "does not name a format that can be loaded"),
        ("f.csv", "", "has no header"),
        ("f.csv", "a,b\n1\n", "f.csv:2 has 1 fields, but the header has 2"),
        ("f.csv", 'a\n"x\n', "f.csv:2: a quoted field does not end"),
        ("f.csv", 'a,b\n1,x"y"\n', "f.csv:2: the quotes of field 2 do not enclose it"),
        ("f.csv", "a,b,a\n1,2,3\n", "f.csv:1 has the column 'a' more than once"),
        ("f.csv", "A ,a\n1,2\n", "f.csv:1 has the column 'a' more than once .as 'A ' and 'a'"),
        ("f.json", '{"a": 1}\n{"a": 1, "A": 2}\n', "f.json:2 has the column 'A' more than once"),
        ("f.json", '{"a": 1, "a": 2}\n', "f.json:1 has the column 'a' more than once"),
        ("f.csv", b"a\n\xff\n", "is not valid UTF-8"),
        ("f.json", "{}\n1\n", "f.json:2 is not a JSON object"),
        ("f.json", "{}\n{\n", "f.json:2 is not a JSON object"),
        ("f.json", "[1]", "f.json:1 is not a JSON object"),
        ("f.json", "[{}", "is not a JSON array"),
    ],
)
def test_bad_files_are_refused_with_the_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        rows(tmp_path, name, content)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="No such file"):
        list(read_rows(tmp_path / "absent.csv"))
