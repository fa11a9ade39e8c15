"""The formats, over results made of plain Arrow."""

from __future__ import annotations

import base64
import csv as csv_reader
import io
import json as json_reader
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import ChunkNotFound, FormatCannotHold
from headrace.results.formats import arrow, csv, json, parquet
from headrace.results.json_encoding import NumberFormat
from headrace.results.layout import stored_schema
from headrace.results.schema import Schema, parse_schema


@dataclass
class MadeRows:
    """Rows of batches in memory: a chunk for each."""

    schema: Schema
    made: list[pa.RecordBatch]

    @property
    def chunks(self) -> int:
        return max(1, len(self.made))

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        if number >= self.chunks:
            raise ChunkNotFound
        return self.made[number : number + 1]

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.made


def _spark(kinds: dict[str, Any]) -> Schema:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    return parse_schema({"type": "struct", "fields": fields})


def _rows(kinds: dict[str, Any], *values: list[list[Any]]) -> MadeRows:
    """Values by column, for each chunk."""
    schema = _spark(kinds)
    stored = stored_schema(schema)
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(chunk, stored, strict=True)],
            schema=stored,
        )
        for chunk in values
    ]
    return MadeRows(schema, batches)


def _document(rows: MadeRows, chunk: int | None = None, **how: Any) -> Any:
    return json_reader.loads(b"".join(json.write(rows, chunk, **how)))


def _array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def _map(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def _struct(**kinds: Any) -> dict[str, Any]:
    return dict(_spark(kinds).spark)


@dataclass(frozen=True)
class Sort:
    """A type, values of it for Arrow, and what JSON must make of each."""

    kind: Any
    values: st.SearchStrategy[Any]
    shown: Any


def _shown_float(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _shown_decimal(value: Decimal) -> str:
    # Thirty digits are more than Decimal's own context has.
    exact = value.quantize(Decimal("1e-20"), context=Context(prec=30))
    return format(exact if value else Decimal("0E-20"), "f")


_PLAIN = [
    Sort("integer", st.integers(-(2**31), 2**31 - 1), lambda value: value),
    Sort("long", st.integers(-(2**63), 2**63 - 1), str),
    Sort("boolean", st.booleans(), lambda value: value),
    Sort("double", st.floats(), _shown_float),
    Sort("string", st.text(), lambda value: value),
    Sort("binary", st.binary(), lambda value: base64.b64encode(value).decode()),
    Sort("date", st.dates(), date.isoformat),
    Sort(
        "timestamp",
        st.datetimes(timezones=st.just(UTC)),
        lambda value: value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z",
    ),
    Sort(
        "timestamp_ntz",
        st.datetimes(),
        lambda value: datetime.isoformat(value, timespec="microseconds"),
    ),
    Sort(
        "decimal(30,20)",
        st.decimals(-(10**9), 10**9, places=20),
        _shown_decimal,
    ),
]


def _maybe(shown: Any) -> Any:
    return lambda value: None if value is None else shown(value)


def _listed(inner: Sort) -> Sort:
    shown = _maybe(inner.shown)
    values = st.lists(st.none() | inner.values, max_size=3)
    return Sort(_array(inner.kind), values, lambda value: [shown(item) for item in value])


def _mapped(inner: Sort) -> Sort:
    shown = _maybe(inner.shown)
    values = st.lists(st.tuples(st.text(max_size=3), st.none() | inner.values), max_size=3)
    return Sort(
        _map("string", inner.kind),
        values,
        lambda value: [[key, shown(item)] for key, item in value],
    )


def _held(inner: Sort) -> Sort:
    shown = _maybe(inner.shown)
    return Sort(
        _struct(**{'a "b"': inner.kind, "n": "integer"}),
        st.fixed_dictionaries({"_0": st.none() | inner.values, "_1": st.integers(0, 9)}),
        lambda value: {'a "b"': shown(value["_0"]), "n": value["_1"]},
    )


_sorts = st.recursive(
    st.sampled_from(_PLAIN),
    lambda inner: inner.map(_listed) | inner.map(_mapped) | inner.map(_held),
    max_leaves=3,
)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[list[Sort], list[list[Any]]]:
    sorts = draw(st.lists(_sorts, min_size=1, max_size=3))
    count = draw(st.integers(0, 6))
    columns = [
        draw(st.lists(st.none() | sort.values, min_size=count, max_size=count)) for sort in sorts
    ]
    return sorts, columns


_slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_slow
@given(_tables(), st.integers(0, 3))
def test_json_and_csv_hold_every_value(
    table: tuple[list[Sort], list[list[Any]]], start: int
) -> None:
    sorts, columns = table
    rows = _rows({f"c{n}": sort.kind for n, sort in enumerate(sorts)}, columns)
    rows.made = [batch.slice(start) for batch in rows.made]
    shown = [
        [_maybe(sort.shown)(value) for sort, value in zip(sorts, row, strict=True)]
        for row in list(zip(*columns, strict=True))[start:]
    ]
    # As text, for NaN and -0.0 would not compare.
    assert json_reader.dumps(_document(rows, 0)["rows"]) == json_reader.dumps(shown)
    text = b"".join(csv.write(rows, None)).decode()
    header, *records = csv_reader.reader(io.StringIO(text, newline=""))
    assert header == [f"c{n}" for n in range(len(sorts))]
    assert len(records) == len(shown)
    for record, row in zip(records, shown, strict=True):
        # The reader takes the blank line of a single NULL for no fields at all.
        for field, value in zip(record or [""], row, strict=True):
            if value is None:
                assert field == ""
            elif isinstance(value, str):
                assert field == value
            else:
                assert json_reader.loads(field) == value


@_slow
@given(_tables())
def test_arrow_and_parquet_hold_every_value(table: tuple[list[Sort], list[list[Any]]]) -> None:
    sorts, columns = table
    rows = _rows({f"c{n}": sort.kind for n, sort in enumerate(sorts)}, columns, columns)
    names = [f"c{n}" for n in range(len(sorts))]
    stored = pa.Table.from_batches(rows.made)
    read = pa.ipc.open_stream(b"".join(arrow.write(rows, None))).read_all()
    read.validate(full=True)
    again = pq.read_table(io.BytesIO(b"".join(parquet.write(rows, None))))
    again.validate(full=True)
    for found in (read, again):
        assert found.column_names == names
        for column, kept in zip(found.columns, stored.columns, strict=True):
            assert str(_nameless(column.to_pylist())) == str(_nameless(kept.to_pylist()))


def _nameless(value: Any) -> Any:
    """Values without the names of struct fields, which differ."""
    if isinstance(value, dict):
        return [_nameless(item) for item in value.values()]
    return [_nameless(item) for item in value] if isinstance(value, list | tuple) else value


def test_json_tells_where_it_is() -> None:
    rows = _rows({"n": "integer"}, [[1]], [[2]])
    described = {"schema": [{"name": "n", "type": "int"}]}
    assert _document(rows, 0) == {**described, "rows": [[1]], "chunk": 0, "next_chunk": 1}
    assert _document(rows, 1) == {**described, "rows": [[2]], "chunk": 1, "next_chunk": None}
    assert _document(rows) == {**described, "rows": [[1], [2]], "chunk": None, "next_chunk": None}
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


@pytest.mark.parametrize(("kind", "value", "shown"), _EXACT, ids=str)
def test_plain_numbers_are_numbers_where_a_double_holds_them(
    kind: str, value: Any, shown: Any
) -> None:
    rows = _rows({"n": kind, "l": _array(kind)}, [[value], [[value]]])
    assert _document(rows, 0, numbers=NumberFormat.PLAIN)["rows"] == [[shown, [shown]]]
    row = _document(rows, 0)["rows"][0]
    assert isinstance(row[0], str)


def test_decimals_are_written_out() -> None:
    values = [Decimal("0E-18"), Decimal("1E-18"), None, Decimal("-1.5")]
    rows = _rows({"n": "decimal(38,18)"}, [values])
    assert _document(rows, 0)["rows"] == [
        ["0.000000000000000000"],
        ["0.000000000000000001"],
        [None],
        ["-1.500000000000000000"],
    ]


def test_bytes_that_are_no_text_are_replaced_in_text_alone() -> None:
    rows = _rows({"s": "string", "l": _array("string")}, [["ok"], [["ok"]]])
    content = pa.array([b"\xffA\x00"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), content)
    batch = pa.RecordBatch.from_arrays([content, lists], schema=rows.made[0].schema)
    rows.made = [batch]
    assert _document(rows, 0)["rows"] == [["�A\x00", ["�A\x00"]]]
    read = pa.ipc.open_stream(b"".join(arrow.write(rows, 0))).read_all()
    assert read["s"].cast(pa.binary()).to_pylist() == [b"\xffA\x00"]


def test_struct_fields_that_share_a_name_are_pairs() -> None:
    rows = _rows({"s": _struct(a="integer", b="integer"), "t": "integer"}, [[None], [1]])
    fields = [{**field, "name": "a"} for field in rows.schema.spark["fields"][0]["type"]["fields"]]
    spark = {"type": "struct", "fields": fields}
    schema = parse_schema({**_struct(s=spark)})
    batch = pa.record_batch(
        [pa.array([{"_0": 1, "_1": 2}, None], stored_schema(schema).field(0).type)],
        schema=stored_schema(schema),
    )
    made = MadeRows(schema, [batch])
    assert _document(made, 0)["rows"] == [[[["a", 1], ["a", 2]]], [None]]
    read = pa.ipc.open_stream(b"".join(arrow.write(made, 0))).read_all()
    assert [field.name for field in read.schema.field("s").type] == ["a", "a"]
    with pytest.raises(FormatCannotHold, match=r"'s'.*two fields named 'a'"):
        parquet.write(made, None)


def test_csv_tells_null_from_empty_and_quotes_what_it_must() -> None:
    values = [None, "", " a ", 'say "b"', "c,d", "e\nf", "g\rh"]
    rows = _rows({"x,y": "string", "z": "integer"}, [values, [None] * 7])
    text = b"".join(csv.write(rows, None)).decode()
    assert text == (
        '"x,y",z\r\n,\r\n"",\r\n a ,\r\n"say ""b""",\r\n"c,d",\r\n"e\nf",\r\n"g\rh",\r\n'
    )
    assert b"".join(csv.write(rows, None, header=False)).decode() == text.partition("\r\n")[2]


def _columnless(count: int) -> MadeRows:
    schema = _spark({})
    batch = pa.record_batch([pa.nulls(count)], names=["x"]).select([])
    return MadeRows(schema, [batch] if count else [])


def test_rows_without_columns() -> None:
    rows = _columnless(2)
    assert _document(rows, 0)["rows"] == [[], []]
    assert pa.ipc.open_stream(b"".join(arrow.write(rows, 0))).read_next_batch().num_rows == 2
    with pytest.raises(FormatCannotHold, match="no columns"):
        list(csv.write(rows, 0))
    with pytest.raises(FormatCannotHold, match="without columns"):
        parquet.write(rows, 0)
    assert b"".join(csv.write(_columnless(0), 0)) == b""
    assert _document(_columnless(0), 0)["rows"] == []


@pytest.mark.parametrize(
    ("kinds", "match"),
    [
        ({"a": "long", "A": "long"}, "two columns named 'A'"),
        ({"a": "long", "s": _array(_struct())}, "'s': it has a struct without fields"),
        ({"a": _map("string", _struct(x="long", X="long"))}, "'a'.*two fields named 'X'"),
    ],
)
def test_parquet_names_what_it_cannot_hold(kinds: dict[str, Any], match: str) -> None:
    with pytest.raises(FormatCannotHold, match=match):
        parquet.write(MadeRows(_spark(kinds), []), None)


def test_no_rows_at_all() -> None:
    rows = MadeRows(_spark({"a": "long", "b": "string"}), [])
    assert _document(rows, 0)["rows"] == []
    assert b"".join(csv.write(rows, None)) == b"a,b\r\n"
    assert pa.ipc.open_stream(b"".join(arrow.write(rows, None))).read_all().num_rows == 0
    content = io.BytesIO(b"".join(parquet.write(rows, None)))
    assert pq.read_table(content).column_names == ["a", "b"]


def test_formats_stream() -> None:
    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            yield rows.made[0]

    rows = _rows({"n": "integer"}, [[1, 2, 3]])
    rows.batches = endless  # type: ignore[method-assign]
    for format_ in (json, arrow, csv, parquet):
        content = format_.write(rows, None)
        assert sum(len(next(content)) for _ in range(50)) > 100
        del content
