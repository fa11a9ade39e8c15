"""The formats, over results in memory."""

from __future__ import annotations

import csv as csv_reader
import io
import json as json_reader
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.memory_rows import MemoryRows, make_rows, make_schema
from tests.support.typed_tables import (
    TypeStrategy,
    array_of,
    map_of,
    nullable,
    struct_of,
    typed_tables,
)

from headrace.errors import ChunkNotFound, FormatCannotHold
from headrace.results.formats import arrow, csv, json, parquet
from headrace.results.json_encoding import NumberFormat
from headrace.results.layout import build_stored_schema
from headrace.results.reader import RowRange
from headrace.results.schema import parse_schema


def _document(rows: MemoryRows, chunk: int | None = None, **options: Any) -> Any:
    return json_reader.loads(b"".join(json.write(rows, chunk, **options)))


_slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_slow
@given(typed_tables(), st.integers(0, 3))
def test_json_and_csv_contain_every_value(
    table: tuple[list[TypeStrategy], list[list[Any]]], start: int
) -> None:
    cases, columns = table
    rows = make_rows({f"c{n}": case.kind for n, case in enumerate(cases)}, columns)
    rows.content = [batch.slice(start) for batch in rows.content]
    expected = [
        [nullable(case.to_json)(value) for case, value in zip(cases, row, strict=True)]
        for row in list(zip(*columns, strict=True))[start:]
    ]
    # Compared as text, because NaN differs from itself and -0.0 equals 0.0.
    assert json_reader.dumps(_document(rows, 0)["rows"]) == json_reader.dumps(expected)
    text = b"".join(csv.write(rows, None)).decode()
    header, *records = csv_reader.reader(io.StringIO(text, newline=""))
    assert header == [f"c{n}" for n in range(len(cases))]
    assert len(records) == len(expected)
    for record, row in zip(records, expected, strict=True):
        # The CSV reader returns no fields for the blank line of a single NULL.
        for field, value in zip(record or [""], row, strict=True):
            if value is None:
                assert field == ""
            elif isinstance(value, str):
                assert field == value
            else:
                assert json_reader.loads(field) == value


@_slow
@given(typed_tables())
def test_arrow_and_parquet_contain_every_value(
    table: tuple[list[TypeStrategy], list[list[Any]]],
) -> None:
    cases, columns = table
    rows = make_rows({f"c{n}": case.kind for n, case in enumerate(cases)}, columns, columns)
    names = [f"c{n}" for n in range(len(cases))]
    stored = pa.Table.from_batches(rows.content)
    from_arrow = pa.ipc.open_stream(b"".join(arrow.write(rows, None))).read_all()
    from_file = pa.ipc.open_file(b"".join(arrow.write_file(rows, None))).read_all()
    from_parquet = pq.read_table(io.BytesIO(b"".join(parquet.write(rows, None))))
    for read in (from_arrow, from_file, from_parquet):
        read.validate(full=True)
        assert read.column_names == names
        for column, original in zip(read.columns, stored.columns, strict=True):
            values, expected = column.to_pylist(), original.to_pylist()
            assert str(_without_names(values)) == str(_without_names(expected))


@_slow
@given(typed_tables(), st.integers(0, 12), st.integers(1, 12))
def test_a_range_contains_its_values_in_every_format(
    table: tuple[list[TypeStrategy], list[list[Any]]], offset: int, limit: int
) -> None:
    cases, columns = table
    rows = make_rows({f"c{n}": case.kind for n, case in enumerate(cases)}, columns, columns)
    selected = RowRange(offset, limit)
    everything = pa.ipc.open_stream(b"".join(arrow.write(rows, None))).read_all()
    expected = everything.slice(offset, limit)
    read = pa.ipc.open_stream(b"".join(arrow.write(rows, selected))).read_all()
    read.validate(full=True)
    assert str(read.to_pydict()) == str(expected.to_pydict())
    from_parquet = pq.read_table(io.BytesIO(b"".join(parquet.write(rows, selected))))
    assert str(from_parquet.to_pydict()) == str(expected.to_pydict())
    document = json_reader.loads(b"".join(json.write(rows, selected)))
    assert json_reader.dumps(document["rows"]) == json_reader.dumps(
        _document(rows)["rows"][offset : offset + limit]
    )
    header, *lines = b"".join(csv.write(rows, selected)).splitlines()
    assert header
    assert bool(lines) == bool(expected.num_rows)


def _without_names(value: Any) -> Any:
    """Return values without the names of struct fields, which differ."""
    if isinstance(value, dict):
        return [_without_names(item) for item in value.values()]
    return [_without_names(item) for item in value] if isinstance(value, list | tuple) else value


def test_json_has_the_number_of_its_chunk_and_of_the_next() -> None:
    rows = make_rows({"n": "integer"}, [[1]], [[2]])
    schema = {"schema": [{"name": "n", "type": "int"}]}
    assert _document(rows, 0) == {**schema, "rows": [[1]], "chunk": 0, "next_chunk": 1}
    assert _document(rows, 1) == {**schema, "rows": [[2]], "chunk": 1, "next_chunk": None}
    assert _document(rows) == {**schema, "rows": [[1], [2]], "chunk": None, "next_chunk": None}
    with pytest.raises(ChunkNotFound):
        json.write(rows, 2)
    assert json_reader.loads(b"".join(json.write_rows(rows, None))) == [[1], [2]]


_EXACT = [
    ("long", 2**53 - 1, 2**53 - 1),
    ("long", -(2**53), str(-(2**53))),
    ("decimal(15,2)", Decimal("9999999999999.99"), 9999999999999.99),
    ("decimal(38,10)", Decimal("0.0000000001"), 1e-10),
    ("decimal(38,10)", Decimal("-12345.6789012345"), -12345.6789012345),
    ("decimal(38,10)", Decimal("1234567.6789012345"), "1234567.6789012345"),
]


@pytest.mark.parametrize(("kind", "value", "expected"), _EXACT, ids=str)
def test_plain_numbers_are_json_numbers_if_a_double_is_exact(
    kind: str, value: Any, expected: Any
) -> None:
    rows = make_rows({"n": kind, "l": array_of(kind)}, [[value], [[value]]])
    assert _document(rows, 0, numbers=NumberFormat.PLAIN)["rows"] == [[expected, [expected]]]
    row = _document(rows, 0)["rows"][0]
    assert isinstance(row[0], str)


def test_decimals_are_written_without_an_exponent() -> None:
    values = [Decimal("0E-18"), Decimal("1E-18"), None, Decimal("-1.5")]
    rows = make_rows({"n": "decimal(38,18)"}, [values])
    assert _document(rows, 0)["rows"] == [
        ["0.000000000000000000"],
        ["0.000000000000000001"],
        [None],
        ["-1.500000000000000000"],
    ]


def test_invalid_utf8_is_replaced_in_text_formats_only() -> None:
    rows = make_rows({"s": "string", "l": array_of("string")}, [["ok"], [["ok"]]])
    content = pa.array([b"\xffA\x00"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), content)
    batch = pa.RecordBatch.from_arrays([content, lists], schema=rows.content[0].schema)
    rows.content = [batch]
    assert _document(rows, 0)["rows"] == [["�A\x00", ["�A\x00"]]]
    read = pa.ipc.open_stream(b"".join(arrow.write(rows, 0))).read_all()
    assert read["s"].cast(pa.binary()).to_pylist() == [b"\xffA\x00"]


def test_structs_with_duplicate_field_names_become_pairs() -> None:
    rows = make_rows({"s": struct_of(a="integer", b="integer"), "t": "integer"}, [[None], [1]])
    fields = [{**field, "name": "a"} for field in rows.schema.spark["fields"][0]["type"]["fields"]]
    spark = {"type": "struct", "fields": fields}
    schema = parse_schema({**struct_of(s=spark)})
    batch = pa.record_batch(
        [pa.array([{"_0": 1, "_1": 2}, None], build_stored_schema(schema).field(0).type)],
        schema=build_stored_schema(schema),
    )
    rows = MemoryRows(schema, [batch])
    assert _document(rows, 0)["rows"] == [[[["a", 1], ["a", 2]]], [None]]
    read = pa.ipc.open_stream(b"".join(arrow.write(rows, 0))).read_all()
    assert [field.name for field in read.schema.field("s").type] == ["a", "a"]
    with pytest.raises(FormatCannotHold, match=r"'s'.*two fields named 'a'"):
        parquet.write(rows, None)


def test_csv_distinguishes_null_from_empty_strings_and_quotes_special_characters() -> None:
    values = [None, "", " a ", 'say "b"', "c,d", "e\nf", "g\rh"]
    rows = make_rows({"x,y": "string", "z": "integer"}, [values, [None] * 7])
    text = b"".join(csv.write(rows, None)).decode()
    assert text == (
        '"x,y",z\r\n,\r\n"",\r\n a ,\r\n"say ""b""",\r\n"c,d",\r\n"e\nf",\r\n"g\rh",\r\n'
    )
    assert b"".join(csv.write(rows, None, header=False)).decode() == text.partition("\r\n")[2]


def _rows_without_columns(count: int) -> MemoryRows:
    schema = make_schema({})
    batch = pa.record_batch([pa.nulls(count)], names=["x"]).select([])
    return MemoryRows(schema, [batch] if count else [])


def test_rows_without_columns_are_counted_or_refused() -> None:
    rows = _rows_without_columns(2)
    assert _document(rows, 0)["rows"] == [[], []]
    assert pa.ipc.open_stream(b"".join(arrow.write(rows, 0))).read_next_batch().num_rows == 2
    assert json_reader.loads(b"".join(json.write(rows, RowRange(1, 5))))["rows"] == [[]]
    with pytest.raises(FormatCannotHold, match="CSV cannot hold rows without columns"):
        list(csv.write(rows, 0))
    with pytest.raises(FormatCannotHold, match="Parquet cannot hold a result without columns"):
        parquet.write(rows, 0)
    assert b"".join(csv.write(_rows_without_columns(0), 0)) == b""
    assert _document(_rows_without_columns(0), 0)["rows"] == []


@pytest.mark.parametrize(
    ("kinds", "match"),
    [
        ({"a": "long", "A": "long"}, "two columns named 'A'"),
        ({"a": "long", "s": array_of(struct_of())}, "'s': it has a struct without fields"),
        ({"a": map_of("string", struct_of(x="long", X="long"))}, "'a'.*two fields named 'X'"),
    ],
)
def test_parquet_names_the_column_that_it_cannot_hold(kinds: dict[str, Any], match: str) -> None:
    with pytest.raises(FormatCannotHold, match=match):
        parquet.write(MemoryRows(make_schema(kinds), []), None)


def test_a_result_without_rows_is_valid_in_every_format() -> None:
    rows = MemoryRows(make_schema({"a": "long", "b": "string"}), [])
    assert _document(rows, 0)["rows"] == []
    assert b"".join(csv.write(rows, None)) == b"a,b\r\n"
    assert pa.ipc.open_stream(b"".join(arrow.write(rows, None))).read_all().num_rows == 0
    assert pa.ipc.open_file(b"".join(arrow.write_file(rows, None))).read_all().num_rows == 0
    content = io.BytesIO(b"".join(parquet.write(rows, None)))
    assert pq.read_table(content).column_names == ["a", "b"]


def test_formats_stream_their_content() -> None:
    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            yield rows.content[0]

    rows = make_rows({"n": "integer"}, [[1, 2, 3]])
    rows.batches = endless  # type: ignore[method-assign]
    for format_ in (json, arrow, csv, parquet):
        content = format_.write(rows, None)
        assert sum(len(next(content)) for _ in range(50)) > 100
        del content
