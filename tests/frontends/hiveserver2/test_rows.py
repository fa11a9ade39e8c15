"""Rows as HiveServer2's clients read them, decoded by a Thrift library."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.transport import TCyMemoryBuffer

from headrace.frontends.hiveserver2.rows import write_columns, write_rows
from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.results.layout import build_stored_schema
from headrace.results.schema import parse_schema

NAMES = ("boolVal", "byteVal", "i16Val", "i32Val", "i64Val", "doubleVal", "stringVal", "binaryVal")


def decode(content: bytes) -> Any:
    """Return the `TRowSet` with these bytes."""
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(content))
    rows = load_protocol().TRowSet()
    protocol.read_struct(rows)
    return rows


def values_of(column: Any) -> list[Any]:
    """Return the values of a `TColumn`, with None for NULL."""
    [(name, found)] = [(name, getattr(column, name)) for name in NAMES if getattr(column, name)]
    del name
    nulls = found.nulls if isinstance(found.nulls, bytes) else found.nulls.encode()
    assert len(nulls) > (len(found.values) - 1) // 8
    return [
        None if nulls[number // 8] >> number % 8 & 1 else value
        for number, value in enumerate(found.values)
    ]


def write(
    kind: Any, values: list[Any], *, version: str = "columns", zone: str = "UTC"
) -> list[Any]:
    """Write a column of a Spark type, and return what a client reads."""
    schema = parse_schema(
        {
            "type": "struct",
            "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}],
        }
    )
    stored = build_stored_schema(schema)
    batch = pa.record_batch([pa.array(values, stored[0].type)], schema=stored)
    types = [column.type for column in schema.columns]
    if version == "rows":
        rows = decode(write_rows(batch, types, start=7, zone=zone)).rows
        return [
            next((v.value for n in NAMES[:7] if (v := getattr(row.colVals[0], n))), None)
            for row in rows
        ]
    decoded = decode(write_columns(batch, types, start=7, zone=zone))
    assert decoded.startRowOffset == 7
    assert decoded.rows == []
    return values_of(decoded.columns[0])


@pytest.mark.parametrize("version", ["columns", "rows"])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", True),
        ("byte", -7),
        ("short", -300),
        ("integer", 1 << 30),
        ("long", -(1 << 62)),
        ("double", 1.25),
        ("float", 1.1),
        ("string", "é"),
    ],
)
def test_values_and_nulls_arrive_whatever_their_number(
    kind: str, value: Any, count: int, version: str
) -> None:
    values = [value if number % 3 else None for number in range(count)]
    assert write(kind, values, version=version) == values
    # The last row is NULL, and all are.
    assert write(kind, [None] * count, version=version) == [None] * count


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))))
def test_any_text_arrives(values: list[str | None]) -> None:
    assert write("string", values) == values


@given(st.lists(st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1))))
def test_any_number_arrives(values: list[int | None]) -> None:
    assert write("long", values) == values


@given(
    st.lists(st.one_of(st.none(), st.text(st.characters(max_codepoint=300)))), st.integers(0, 20)
)
def test_a_slice_arrives(values: list[str | None], first: int) -> None:
    """The offsets of a slice do not begin with zero."""
    schema = parse_schema(
        {
            "type": "struct",
            "fields": [{"name": "a", "type": "string", "nullable": True, "metadata": {}}],
        }
    )
    batch = pa.record_batch([pa.array(values, pa.string())], ["_0"]).slice(first)
    types = [column.type for column in schema.columns]
    decoded = decode(write_columns(batch, types, start=0, zone="UTC"))
    assert values_of(decoded.columns[0]) == values[first:]


MICROS = dt.datetime(2024, 3, 31, 1, 30, 0, 250_000)  # noqa: DTZ001 - of a type without a zone


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("decimal(38,18)", Decimal("1.5"), "1.500000000000000000"),
        ("decimal(38,18)", Decimal("0.000000000000000001"), "0.000000000000000001"),
        ("date", dt.date(1582, 10, 4), "1582-10-04"),
        ("timestamp_ntz", MICROS, "2024-03-31 01:30:00.25"),
        ("timestamp_ntz", dt.datetime(2024, 1, 2, 3, 4), "2024-01-02 03:04:00"),  # noqa: DTZ001
        ("interval year to month", -14, "-1-2"),
        ("interval day to second", dt.timedelta(days=-1, microseconds=-1), "-1 00:00:00.000001000"),
        (
            {"type": "array", "elementType": "string", "containsNull": True},
            ["a", None],
            '["a",null]',
        ),
        (
            {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
            [("k", 1e10), ("l", 0.5)],
            '{"k":1.0E10,"l":0.5}',
        ),
        (
            {
                "type": "struct",
                "fields": [
                    {"name": "x", "type": "integer", "nullable": True, "metadata": {}},
                    {"name": "y", "type": "date", "nullable": True, "metadata": {}},
                ],
            },
            {"_0": 1, "_1": dt.date(2020, 2, 3)},
            '{"x":1,"y":2020-02-03}',
        ),
    ],
)
def test_other_types_arrive_as_text(kind: Any, value: Any, text: str) -> None:
    assert write(kind, [value, None]) == [text, None]


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "2024-03-31 01:30:00.25"),
        ("Europe/Berlin", "2024-03-31 03:30:00.25"),
        ("+02:00", "2024-03-31 03:30:00.25"),
        ("GMT-8", "2024-03-30 17:30:00.25"),
    ],
)
def test_a_timestamp_arrives_in_the_zone_of_the_session(zone: str, text: str) -> None:
    instant = MICROS.replace(tzinfo=dt.UTC)
    assert write("timestamp", [instant, None], zone=zone) == [text, None]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.25e-300, "-1.25E-300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (-0.0, "-0.0"),
        (123456789.125, "1.23456789125E8"),
    ],
)
def test_a_nested_number_has_the_form_of_java(value: float, text: str) -> None:
    kind = {"type": "array", "elementType": "double", "containsNull": True}
    assert write(kind, [[value]]) == [f"[{text}]"]


def test_bytes_arrive_as_they_are() -> None:
    assert write("binary", [b"\xff\x00", None]) == [b"\xff\x00", None]
