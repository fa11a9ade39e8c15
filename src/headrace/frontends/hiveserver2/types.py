"""Types of Spark as HiveServer2's clients know them."""

from __future__ import annotations

from typing import Any

from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.results.schema import Column, Schema, SparkType, TypeKind

_TYPE_IDS = {
    TypeKind.VOID: "NULL_TYPE",
    TypeKind.BOOLEAN: "BOOLEAN_TYPE",
    TypeKind.BYTE: "TINYINT_TYPE",
    TypeKind.SHORT: "SMALLINT_TYPE",
    TypeKind.INTEGER: "INT_TYPE",
    TypeKind.LONG: "BIGINT_TYPE",
    TypeKind.FLOAT: "FLOAT_TYPE",
    TypeKind.DOUBLE: "DOUBLE_TYPE",
    TypeKind.DECIMAL: "DECIMAL_TYPE",
    TypeKind.BINARY: "BINARY_TYPE",
    TypeKind.DATE: "DATE_TYPE",
    TypeKind.TIMESTAMP: "TIMESTAMP_TYPE",
    # Clients know one kind of timestamp without a zone.
    TypeKind.TIMESTAMP_NTZ: "TIMESTAMP_TYPE",
    TypeKind.ARRAY: "ARRAY_TYPE",
    TypeKind.MAP: "MAP_TYPE",
    TypeKind.STRUCT: "STRUCT_TYPE",
    TypeKind.YEAR_MONTH: "INTERVAL_YEAR_MONTH_TYPE",
    TypeKind.DAY_TIME: "INTERVAL_DAY_TIME_TYPE",
}
"""Names of the ids; `STRING_TYPE` for the others, which clients do not know."""
_INTERVALS = frozenset({TypeKind.YEAR_MONTH, TypeKind.DAY_TIME})
_FIRST_WITH_INTERVALS = 6
"""Version of the protocol (0 is the first) from which on clients know the ids of intervals."""


def describe_schema(schema: Schema, version: int) -> Any:
    """Return the `TTableSchema` of a result, for a version of the protocol (0 is the first)."""
    columns = [
        _describe_column(column, position, version)
        for position, column in enumerate(schema.columns, start=1)
    ]
    return load_protocol().TTableSchema(columns=columns)


def type_id(spark_type: SparkType, version: int) -> int:
    """Return the id of a type."""
    name = _TYPE_IDS.get(spark_type.kind, "STRING_TYPE")
    if spark_type.kind in _INTERVALS and version < _FIRST_WITH_INTERVALS:
        name = "STRING_TYPE"
    number: int = getattr(load_protocol().TTypeId, name)
    return number


def _describe_column(column: Column, position: int, version: int) -> Any:
    protocol = load_protocol()
    qualifiers = None
    if column.type.kind is TypeKind.DECIMAL:
        values = {"precision": column.type.precision, "scale": column.type.scale}
        qualifiers = protocol.TTypeQualifiers(
            {key: protocol.TTypeQualifierValue(i32Value=value) for key, value in values.items()}
        )
    entry = protocol.TPrimitiveTypeEntry(type_id(column.type, version), qualifiers)
    return protocol.TColumnDesc(
        columnName=column.name,
        typeDesc=protocol.TTypeDesc([protocol.TTypeEntry(primitiveEntry=entry)]),
        position=position,
        comment="",
    )
