"""Rows of local files."""

from __future__ import annotations

import gzip
import io
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.java_arrow import write_as_java

from headrace.cli.load.file_rows import Misfits
from headrace.cli.load.formats import LoadFile
from headrace.errors import InvalidRequest


def rows(tmp_path: Path, name: str, content: str | bytes) -> list[tuple[int, dict[str, Any]]]:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    misfits = Misfits()
    read = list(LoadFile(file).rows(misfits))
    assert misfits.count == 0, misfits.first
    return read


def misfits_of(tmp_path: Path, name: str, content: str) -> list[str]:
    """Return why rows cannot be loaded, with their lines."""
    (tmp_path / name).write_text(content)
    misfits = Misfits()
    list(LoadFile(tmp_path / name).rows(misfits))
    return [text.removeprefix(f"{tmp_path}/") for text in misfits.first]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_distinguishes_null_from_an_empty_string(tmp_path: Path, end: str) -> None:
    content = end.join(["\ufeffa,b", ',""', '"x, ""y""",2', f'"two{end}lines",', ""])
    assert rows(tmp_path, "f.csv", content) == [
        (2, {"a": None, "b": ""}),
        (3, {"a": 'x, "y"', "b": "2"}),
        (4, {"a": f"two{end}lines", "b": None}),
    ]


def test_a_long_quoted_field_takes_linear_time(tmp_path: Path) -> None:
    begin = time.thread_time()
    field = '""x\n' * 200_000
    (row,) = rows(tmp_path, "f.csv", f'a\n"{field}"\n')
    assert row == (2, {"a": field.replace('""', '"')})
    assert time.thread_time() - begin < 5  # 10 s and more if each line reads all lines before it


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


def test_tsv_has_the_escapes_that_the_shell_writes(tmp_path: Path) -> None:
    content = 'a\tb\r\n\\N\t\\t\\n\\r\\\\N\r\n\n"x"\t\r\n'
    assert rows(tmp_path, "f.tsv", content) == [
        (2, {"a": None, "b": "\t\n\r\\N"}),
        (4, {"a": '"x"', "b": ""}),
    ]


@pytest.mark.parametrize("name", ["f.csv", "f.tsv", "f.jsonl", "f.json"])
def test_every_format_may_be_compressed(tmp_path: Path, name: str) -> None:
    content = b'{"a": "1"}\n' if "json" in name else b"a\n1\n"
    line = 1 if "json" in name else 2
    assert rows(tmp_path, f"{name}.gz", gzip.compress(content)) == [(line, {"a": "1"})]


def test_parquet_and_arrow_may_be_compressed_and_their_form_is_found_by_the_content(
    tmp_path: Path,
) -> None:
    table = pa.table({"a": [1, 2]})
    parquet, file, stream = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    expected = [(1, {"a": "1"}), (2, {"a": "2"})]
    assert rows(tmp_path, "f.parquet.gz", gzip.compress(parquet.getvalue())) == expected
    for name in ("f.arrow", "f.arrows"):
        for content in (file.getvalue(), stream.getvalue()):
            assert rows(tmp_path, name, content) == expected


def test_arrow_files_of_java_have_lists_without_values(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.struct({"x": pa.list_(pa.string())}))
    table = pa.record_batch([write_as_java(pa.array([[], None], kind))], names=["a"])
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_batch(table)
    assert rows(tmp_path, "f.arrow", file.getvalue()) == [(1, {"a": []}), (2, {"a": None})]


_QUOTES = (
    "f.csv:2: the quotes of field 2 do not enclose it "
    '(a field with quotes is written as "a ""b"" c")'
)


@pytest.mark.parametrize(
    ("name", "content", "misfits"),
    [
        (
            "f.csv",
            "a,b\n1\n1,2\n1,2,3\n",
            [
                "f.csv:2: the row has 1 field, but the header has 2 fields",
                "f.csv:4: the row has 3 fields, but the header has 2 fields",
            ],
        ),
        (
            "f.csv",
            'a,b\n1,x"y"\n',
            [_QUOTES],
        ),
        (
            "f.json",
            '{"a": 1}\n{"a": 1, "A": 2}\n',
            ["f.json:2: the row has the column 'A' more than once (as 'a' and 'A')"],
        ),
        (
            "f.json",
            '{"a": 1, "a": 2}\n',
            ["f.json:1: an object has the name 'a' more than once"],
        ),
        ("f.json", "\n{}\n1\n", ["f.json:3: the value is not a JSON object"]),
        ("f.json", "{}\n{\n", ["f.json:2: the text is not JSON"]),
        ("f.json", "[1]", ["f.json:1: the value is not a JSON object"]),
    ],
)
def test_rows_that_are_not_well_formed_are_named_by_their_lines(
    tmp_path: Path, name: str, content: str, misfits: list[str]
) -> None:
    assert misfits_of(tmp_path, name, content) == misfits


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.xml", "", "does not name a format that can be loaded"),
        ("f.csv", "", "has no header"),
        ("f.csv", 'a\n"x\n', "f.csv:2: a quoted field does not end"),
        ("f.csv", "a,b,a\n1,2,3\n", "f.csv:1 has the column 'a' more than once"),
        ("f.csv", "A ,a\n1,2\n", "f.csv:1 has the column 'a' more than once .as 'A ' and 'a'"),
        ("f.csv", ",a\n0,2\n", "f.csv:1: column 1 has no name"),
        ("f.csv", b"a\n\xff\n", "is not valid UTF-8"),
        ("f.csv.gz", b"a\n1\n", "cannot be read: Not a gzipped file"),
        ("f.json", "[{}", "f.json: the text is not JSON"),
        ("f.parquet", b"PAR", "f.parquet cannot be read"),
        ("f.arrow", b"", "f.arrow cannot be read"),
    ],
)
def test_files_that_cannot_be_read_as_a_whole_are_refused(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        rows(tmp_path, name, content)


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet", "absent.arrow", "absent.csv.gz"])
def test_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="No such file"):
        list(LoadFile(tmp_path / name).rows(Misfits()))


def test_times_with_nanoseconds_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), tmp_path / "f.parquet")
    with pytest.raises(InvalidRequest, match="column 'at' cannot be loaded") as error:
        list(LoadFile(tmp_path / "f.parquet").rows(Misfits()))
    assert "microseconds" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.large_string(), "string"),
        (pa.binary(4), "binary"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.date64(), "date"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.timestamp("s", "Europe/Paris"), "timestamp"),
        (pa.duration("s"), "interval day to second"),
        (pa.list_(pa.float32(), 2), "array<float>"),
        (pa.map_(pa.string(), pa.bool_()), "map<string,boolean>"),
        (pa.struct({"a": pa.time32("ms")}), "struct<a:time(6)>"),
        (pa.decimal256(50, 2), None),
        (pa.month_day_nano_interval(), None),
    ],
)
def test_arrow_files_declare_the_types_of_their_columns(
    tmp_path: Path, type_: pa.DataType, expected: str | None
) -> None:
    file = tmp_path / "f.arrow"
    with pa.ipc.new_file(file, pa.schema({"c": type_})):
        pass
    if expected is None:
        with pytest.raises(InvalidRequest, match="column 'c' has the type"):
            LoadFile(file).types()
    else:
        assert {name: kind.sql for name, kind in (LoadFile(file).types() or {}).items()} == {
            "c": expected
        }
