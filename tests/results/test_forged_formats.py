"""Forged values in the formats: no text is much larger than the values from which it is made."""

from __future__ import annotations

import io
import json as json_reader
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.memory_rows import MemoryRows, make_rows

from headrace.errors import FormatCannotHold, InvalidResult
from headrace.results.formats import csv, json, parquet
from headrace.results.layout import build_stored_schema


def _struct_of(name: str) -> dict[str, Any]:
    field = {"name": name, "type": "void", "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [field]}


def _array_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def _read(rows: MemoryRows) -> Any:
    return json_reader.loads(b"".join(json.write_rows(rows, 0)))


@pytest.mark.finding("S3")
def test_forged_times_with_nanoseconds_are_cut_to_microseconds() -> None:
    rows = make_rows({"t": "time(6)"}, [[0]])
    stored = build_stored_schema(rows.schema)
    rows.content = [pa.record_batch([pa.array([1999], pa.time64("ns"))], schema=stored)]
    assert _read(rows) == [["00:00:00.000001"]]
    assert b"".join(csv.write(rows, None)).decode().endswith("00:00:00.000001\r\n")
    read = pq.read_table(io.BytesIO(b"".join(parquet.write(rows, None))))
    assert read["t"].cast(pa.int64()).to_pylist() == [1]


@pytest.mark.finding("S3")
def test_the_text_of_all_variants_of_a_column_is_bounded() -> None:
    """Each value repeats a long key that its bytes have once."""
    rows = make_rows({"v": "variant"}, [[{"_0": b"\x00", "_1": b"\x01\x00\x00"}]])
    count, key = 200, b"k" * 2000
    offsets = b"".join(number.to_bytes(2, "little") for number in range(count + 1))
    value = bytes([2 | 1 << 2, count]) + bytes(count) + offsets + bytes(count)
    metadata = b"\x41" + b"\x01\x00" + b"\x00\x00" + len(key).to_bytes(2, "little") + key
    stored = build_stored_schema(rows.schema)

    def fill(number: int) -> None:
        column = pa.array([{"_0": value, "_1": metadata}] * number, stored.field(0).type)
        rows.content = [pa.record_batch([column], schema=stored)]

    fill(2)
    assert len(b"".join(json.write(rows, 0))) > 2 * count * len(key)
    fill(1000)
    with pytest.raises(InvalidResult, match="characters as JSON"):
        list(json.write(rows, 0))


@pytest.mark.finding("S3")
@pytest.mark.parametrize("nest", [lambda kind: kind, _array_of], ids=["struct", "array"])
def test_names_that_are_repeated_in_every_struct_are_bounded(nest: Any) -> None:
    """A schema has the name once: 100,000 structs would be 100 GB of text."""
    rows = make_rows({"c": nest(_struct_of("n" * 1_000_000))}, [[None]])
    assert _read(rows) == [[None]]
    stored = build_stored_schema(rows.schema)
    column = pa.StructArray.from_arrays([pa.nulls(100_000)], ["_0"])
    type_ = stored.field(0).type
    if pa.types.is_list(type_):
        column = pa.ListArray.from_arrays(pa.array([0, 100_000], pa.int32()), column, type=type_)
    rows.content = [pa.record_batch([column], schema=stored)]
    for write in (json.write, csv.write):
        with pytest.raises(FormatCannotHold, match="Read the result as Arrow"):
            list(write(rows, 0))
