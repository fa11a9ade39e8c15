"""The Arrow layout of the columns of a Spark schema.

Two Arrow schemas share one layout, so that a batch changes from one to the other without a copy
(`headrace.results.batches.apply_schema`):

- The stored schema names columns and struct fields by position (`_0`, `_1`, …), because names may
  repeat in Spark.
- The client schema has the real names. Field metadata holds the Spark types that Arrow lacks.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.results.schema import Schema, SparkType, TypeKind

SPARK_SCHEMA_KEY = b"spark.schema"
SPARK_TYPE_KEY = b"spark.type"

_ATOMIC_TYPES: dict[TypeKind, pa.DataType] = {
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
    # pyarrow has no type for a number of months.
    TypeKind.YEAR_MONTH: pa.int32(),
}

# Spark types that are structs in Arrow: names and types of the fields. Calendar intervals do not
# use Arrow's own type: it counts nanoseconds, and Spark's 64-bit microseconds would overflow.
_STRUCT_TYPES: dict[TypeKind, tuple[tuple[str, pa.DataType], ...]] = {
    TypeKind.CALENDAR: (("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())),
    TypeKind.VARIANT: (("value", pa.binary()), ("metadata", pa.binary())),
    TypeKind.GEOMETRY: (("srid", pa.int32()), ("wkb", pa.binary())),
    TypeKind.GEOGRAPHY: (("srid", pa.int32()), ("wkb", pa.binary())),
}

# The Arrow type does not identify these Spark types: field metadata does.
_ANNOTATED_KINDS = frozenset({TypeKind.YEAR_MONTH, *_STRUCT_TYPES})


def build_stored_schema(schema: Schema) -> pa.Schema:
    """Build the Arrow schema of stored batches: positional names, all columns nullable."""
    names = make_positional_names(len(schema.columns))
    return pa.schema(
        [
            pa.field(name, _arrow_type(column.type, real_names=False))
            for name, column in zip(names, schema.columns, strict=True)
        ]
    )


def build_client_schema(schema: Schema, spark_json: str) -> pa.Schema:
    """Build the Arrow schema for clients: real names, and Spark's schema JSON in the metadata."""
    fields = [_client_field(column.name, column.type) for column in schema.columns]
    return pa.schema(fields, metadata={SPARK_SCHEMA_KEY: spark_json.encode()})


def has_incomplete_struct(array: pa.Array, spark_type: SparkType) -> bool:
    """Return whether a value of a Spark type that is a struct in Arrow lacks a part.

    Such a value is null as a whole, or none of its parts is null. Arrow does not check this.
    """
    if not len(array) or not spark_type.contains(*_STRUCT_TYPES):
        return False
    if spark_type.kind in _STRUCT_TYPES:
        return any(part.null_count > array.null_count for part in array.flatten())
    if spark_type.kind is TypeKind.STRUCT:
        children = array.flatten()
    elif spark_type.kind is TypeKind.MAP:
        children = [array.keys, array.items]
    else:
        children = [array.values]
    return any(map(has_incomplete_struct, children, spark_type.children))


def make_positional_names(count: int) -> list[str]:
    """Return the names `_0`, `_1`, … of that many columns or struct fields."""
    return [f"_{index}" for index in range(count)]


def _client_field(name: str, spark_type: SparkType) -> pa.Field:
    annotated = spark_type.kind in _ANNOTATED_KINDS
    metadata = {SPARK_TYPE_KEY: spark_type.sql.encode()} if annotated else None
    return pa.field(name, _arrow_type(spark_type, real_names=True), metadata=metadata)


def _arrow_type(spark_type: SparkType, *, real_names: bool) -> pa.DataType:
    if atomic := _ATOMIC_TYPES.get(spark_type.kind):
        return atomic
    match spark_type.kind:
        case TypeKind.DECIMAL:
            return pa.decimal128(spark_type.precision, spark_type.scale)
        case TypeKind.ARRAY:
            element = _child_field("element", spark_type.children[0], real_names=real_names)
            return pa.list_(element)
        case TypeKind.MAP:
            key, value = spark_type.children
            key_field = _child_field("key", key, real_names=real_names)
            value_field = _child_field("value", value, real_names=real_names)
            return pa.map_(key_field.with_nullable(nullable=False), value_field)
        case TypeKind.STRUCT:
            children = spark_type.children
            names = spark_type.names if real_names else make_positional_names(len(children))
            return pa.struct(
                [
                    _child_field(name, child, real_names=real_names)
                    for name, child in zip(names, children, strict=True)
                ]
            )
    return _struct_type(spark_type.kind, real_names=real_names)


def _child_field(name: str, spark_type: SparkType, *, real_names: bool) -> pa.Field:
    if real_names:
        return _client_field(name, spark_type)
    return pa.field(name, _arrow_type(spark_type, real_names=False))


def _struct_type(kind: TypeKind, *, real_names: bool) -> pa.DataType:
    fields = _STRUCT_TYPES[kind]
    if not real_names:
        names = make_positional_names(len(fields))
        return pa.struct(list(zip(names, (type_ for _, type_ in fields), strict=True)))
    return pa.struct(
        [pa.field(name, type_, metadata=_variant_metadata(kind, name)) for name, type_ in fields]
    )


def _variant_metadata(kind: TypeKind, name: str) -> dict[bytes, bytes] | None:
    """Return the metadata by which Spark's ArrowUtils recognises a variant, else None."""
    return {b"variant": b"true"} if kind is TypeKind.VARIANT and name == "metadata" else None
