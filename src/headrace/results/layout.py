"""How a Spark schema is laid out in Arrow.

One layout, two ways of naming it. The stored form names columns and struct fields by position
(`_0`, `_1`, …), because Spark allows names that repeat; the shown form has the real names and tells
in field metadata what Arrow's own types do not. Both have the same buffers, so that batches pass
from one to the other as they are (see `headrace.results.batches.relabel`).
"""

from __future__ import annotations

import pyarrow as pa

from headrace.results.schema import Schema, SparkType, TypeKind

SPARK_SCHEMA_KEY = b"spark.schema"
SPARK_TYPE_KEY = b"spark.type"

_PLAIN: dict[TypeKind, pa.DataType] = {
    TypeKind.VOID: pa.null(),
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INTEGER: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIME: pa.time64("ns"),
    TypeKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TypeKind.TIMESTAMP_NTZ: pa.timestamp("us"),
    TypeKind.DAY_TIME: pa.duration("us"),
    # pyarrow has no type of months alone.
    TypeKind.YEAR_MONTH: pa.int32(),
}

# Types that Arrow holds as structs: the names of their fields, and the fields' types. Spark counts
# calendar intervals in microseconds; Arrow's own type counts in nanoseconds and overflows.
_COMPOSED: dict[TypeKind, tuple[tuple[str, pa.DataType], ...]] = {
    TypeKind.CALENDAR: (("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())),
    TypeKind.VARIANT: (("value", pa.binary()), ("metadata", pa.binary())),
    TypeKind.GEOMETRY: (("srid", pa.int32()), ("wkb", pa.binary())),
    TypeKind.GEOGRAPHY: (("srid", pa.int32()), ("wkb", pa.binary())),
}

_TOLD = frozenset(
    {
        TypeKind.YEAR_MONTH,
        TypeKind.CALENDAR,
        TypeKind.VARIANT,
        TypeKind.GEOMETRY,
        TypeKind.GEOGRAPHY,
    }
)


def stored_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the stored form: names by position, everything nullable."""
    return pa.schema(
        [
            pa.field(f"_{index}", _arrow(column.type, real=False))
            for index, column in enumerate(schema.columns)
        ]
    )


def shown_schema(schema: Schema, spark_json: str) -> pa.Schema:
    """The Arrow schema that clients see: real names, Spark's schema in the metadata."""
    fields = [_shown_field(column.name, column.type) for column in schema.columns]
    return pa.schema(fields, metadata={SPARK_SCHEMA_KEY: spark_json.encode()})


def _shown_field(name: str, kind: SparkType) -> pa.Field:
    metadata = {SPARK_TYPE_KEY: kind.sql.encode()} if kind.kind in _TOLD else None
    return pa.field(name, _arrow(kind, real=True), metadata=metadata)


def _arrow(kind: SparkType, *, real: bool) -> pa.DataType:
    if plain := _PLAIN.get(kind.kind):
        return plain
    match kind.kind:
        case TypeKind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        case TypeKind.ARRAY:
            return pa.list_(_inner("element", kind.children[0], real=real))
        case TypeKind.MAP:
            key, value = kind.children
            key_field = _inner("key", key, real=real).with_nullable(nullable=False)
            return pa.map_(key_field, _inner("value", value, real=real))
        case TypeKind.STRUCT:
            names = kind.names if real else _positions(len(kind.names))
            return pa.struct(
                [
                    _inner(name, child, real=real)
                    for name, child in zip(names, kind.children, strict=True)
                ]
            )
    parts = _COMPOSED[kind.kind]
    names = tuple(name for name, _ in parts) if real else _positions(len(parts))
    return pa.struct(
        [
            pa.field(name, part, metadata=_mark(kind.kind, name) if real else None)
            for name, (_, part) in zip(names, parts, strict=True)
        ]
    )


def _inner(name: str, kind: SparkType, *, real: bool) -> pa.Field:
    return _shown_field(name, kind) if real else pa.field(name, _arrow(kind, real=False))


def _positions(count: int) -> tuple[str, ...]:
    return tuple(f"_{index}" for index in range(count))


def _mark(kind: TypeKind, name: str) -> dict[bytes, bytes] | None:
    """Spark's own mark of a variant, by which its Arrow reader knows one."""
    return {b"variant": b"true"} if kind is TypeKind.VARIANT and name == "metadata" else None
