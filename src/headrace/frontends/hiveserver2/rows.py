"""Rows as HiveServer2's clients read them: a list of values and a bitmap of NULLs per column.

The bytes are those of a `TRowSet` in Thrift's binary protocol. Arrow and NumPy write them, because
a Thrift library would make a Python object of each value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.frontends.hiveserver2.hive_text import encode_hive_text
from headrace.frontends.hiveserver2.wire import STOP, write_field
from headrace.results.schema import SparkType, TypeKind

_BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64, _STRING, _STRUCT, _LIST = 2, 3, 4, 6, 8, 10, 11, 12, 15
_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")
_COUNT = struct.Struct("!Bi")


class _Form(NamedTuple):
    """How the values of a Spark type travel."""

    field: int
    """Number of the field in the unions `TColumn` and `TColumnValue`."""
    kind: int
    """Type in the binary protocol."""
    numbers: str | None
    """Type in NumPy, with the byte order of the protocol; None: strings or bytes."""


_TEXT = _Form(7, _STRING, None)
_FORMS = {
    TypeKind.BOOLEAN: _Form(1, _BOOL, "i1"),
    TypeKind.BYTE: _Form(2, _BYTE, "i1"),
    TypeKind.SHORT: _Form(3, _I16, ">i2"),
    TypeKind.INTEGER: _Form(4, _I32, ">i4"),
    TypeKind.LONG: _Form(5, _I64, ">i8"),
    TypeKind.FLOAT: _Form(6, _DOUBLE, ">f8"),
    TypeKind.DOUBLE: _Form(6, _DOUBLE, ">f8"),
    TypeKind.BINARY: _Form(8, _STRING, None),
}

_BYTES = SparkType(TypeKind.BINARY, "binary")
_ARROW_KINDS = frozenset(
    {
        *(TypeKind.VOID, TypeKind.BOOLEAN, TypeKind.BYTE, TypeKind.SHORT, TypeKind.INTEGER),
        *(TypeKind.LONG, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL, TypeKind.BINARY),
        *(TypeKind.STRING, TypeKind.DATE, TypeKind.YEAR_MONTH, TypeKind.DAY_TIME),
    }
)
"""Types whose values Kyuubi's JDBC driver reads as they are stored."""


def write_columns(
    batch: pa.RecordBatch, types: Sequence[SparkType], *, start: int, zone: str
) -> bytes:
    """Return a `TRowSet` for a client of version 6 of the protocol or later.

    Args:
        batch: Rows in the stored layout.
        start: Position of the first row in the result.
        zone: Time zone of the session, in which timestamps are written.

    Raises InvalidResult if a value cannot be read.
    """
    columns = [_write_column(*pair, zone) for pair in zip(batch.columns, types, strict=True)]
    return b"".join(
        [
            *(write_field(_I64, 1), _LONG.pack(start)),
            *(write_field(_LIST, 2), _COUNT.pack(_STRUCT, 0)),
            *(write_field(_LIST, 3), _COUNT.pack(_STRUCT, len(columns))),
            *columns,
            STOP,
        ]
    )


def write_arrow(
    batch: pa.RecordBatch, types: Sequence[SparkType], *, start: int, zone: str
) -> bytes:
    """Return a `TRowSet` for Kyuubi's JDBC driver: one value, which is a record batch of Arrow.

    The driver derives the types from those of HiveServer2: what they do not have travels as text.
    """
    if not batch.num_rows:
        return write_columns(pa.record_batch([], []), [], start=start, zone=zone)
    arrays = [
        array if spark_type.kind in _ARROW_KINDS else encode_hive_text(array, spark_type, zone)
        for array, spark_type in zip(batch.columns, types, strict=True)
    ]
    message = pa.record_batch(arrays, batch.schema.names).serialize().to_pybytes()
    values = pa.record_batch([pa.array([message], pa.binary())], ["_0"])
    return write_columns(values, [_BYTES], start=start, zone=zone)


def _write_column(array: pa.Array, spark_type: SparkType, zone: str) -> bytes:
    form = _FORMS.get(spark_type.kind, _TEXT)
    if form is _TEXT:
        array = encode_hive_text(array, spark_type, zone)
    array = _as_double(array)
    values = _write_strings(array) if form.numbers is None else _write_numbers(array, form.numbers)
    nulls = _write_nulls(array)
    return b"".join(
        [
            write_field(_STRUCT, form.field),
            *(write_field(_LIST, 1), _COUNT.pack(form.kind, len(array)), values),
            *(write_field(_STRING, 2), _INT.pack(len(nulls)), nulls),
            *(STOP, STOP),
        ]
    )


def _as_double(array: pa.Array) -> pa.Array:
    """Return floats as doubles with the same digits: 1.1, and not 1.100000023841858."""
    return array.cast(pa.string()).cast(pa.float64()) if pa.types.is_float32(array.type) else array


def _write_numbers(array: pa.Array, numbers: str) -> bytes:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if array.null_count:
        array = pc.fill_null(array, 0)
    content: bytes = array.to_numpy(zero_copy_only=False).astype(numbers).tobytes()
    return content


def _write_strings(array: pa.Array) -> bytes:
    """Return the strings, each behind its length in four bytes."""
    if array.null_count:
        array = pc.fill_null(array, "" if pa.types.is_string(array.type) else b"")
    count = len(array)
    if not count:
        return b""
    offsets = np.frombuffer(array.buffers()[1], np.int32, count + 1, array.offset * 4)
    lengths = np.diff(offsets)
    first, total = int(offsets[0]), int(offsets[-1] - offsets[0])
    written = np.empty(total + 4 * count, np.uint8)
    begins = (offsets[:-1] - first) + 4 * np.arange(count)
    is_length = np.zeros(len(written), bool)
    for byte in range(4):
        is_length[begins + byte] = True
        written[begins + byte] = (lengths >> (24 - 8 * byte)) & 0xFF
    if total:
        written[~is_length] = np.frombuffer(array.buffers()[2], np.uint8, total, first)
    return written.tobytes()


def _write_nulls(array: pa.Array) -> bytes:
    """Return the bitmap of NULLs: the lowest bit of the first byte is the first row."""
    if not array.null_count:
        # Some clients read a byte behind the last row.
        return bytes(len(array) // 8 + 1)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    bits: bytes = np.packbits(is_null, bitorder="little").tobytes()
    return bits.ljust(len(array) // 8 + 1, STOP)


def write_rows(
    batch: pa.RecordBatch, types: Sequence[SparkType], *, start: int, zone: str
) -> bytes:
    """Return a `TRowSet` for a client of version 1 to 5 of the protocol: a struct per value."""
    columns = [_list_values(*pair, zone) for pair in zip(batch.columns, types, strict=True)]
    rows = [b"".join(values) for values in zip(*columns, strict=True)]
    begin = write_field(_LIST, 1) + _COUNT.pack(_STRUCT, len(types))
    return b"".join(
        [
            *(write_field(_I64, 1), _LONG.pack(start)),
            *(write_field(_LIST, 2), _COUNT.pack(_STRUCT, batch.num_rows)),
            *(begin + row + STOP for row in rows),
            STOP,
        ]
    )


def _list_values(array: pa.Array, spark_type: SparkType, zone: str) -> Iterable[bytes]:
    """Return each value as a `TColumnValue`."""
    form = _FORMS.get(spark_type.kind, _TEXT)
    if form.numbers is None:
        # These versions have no bytes: they travel as text.
        array = encode_hive_text(array, spark_type, zone)
        form = _TEXT
    begin = write_field(_STRUCT, form.field)
    null = begin + STOP + STOP
    pack = _PACKERS[form.kind]
    field = write_field(form.kind, 1)
    return [
        null if value is None else begin + field + pack(value) + STOP + STOP
        for value in _as_double(array).to_pylist()
    ]


def _pack_text(value: str) -> bytes:
    content = value.encode()
    return _INT.pack(len(content)) + content


_PACKERS: dict[int, Callable[[Any], bytes]] = {
    _BOOL: struct.Struct("!?").pack,
    _BYTE: struct.Struct("!b").pack,
    _I16: struct.Struct("!h").pack,
    _I32: _INT.pack,
    _I64: _LONG.pack,
    _DOUBLE: struct.Struct("!d").pack,
    _STRING: _pack_text,
}
