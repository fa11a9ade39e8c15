"""Parquet with the real column names, which Spark reads with the original types.

The file's metadata contains Spark's schema under the key of Spark's own Parquet writer. Spark
therefore restores intervals and other types that Parquet lacks. Spark cannot read calendar
intervals, geometries and geographies from Parquet: they are structs, as in the Arrow format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import FormatCannotHold
from headrace.results.batches import apply_schema
from headrace.results.formats import StreamBuffer
from headrace.results.layout import build_client_schema
from headrace.results.reader import Rows, Selection, select_batches
from headrace.results.schema import Schema, SparkType, TypeKind, find_duplicate

_SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_KEYS_WITH_TYPES = frozenset({"fields", "type", "elementType", "keyType", "valueType", "sqlType"})


def write(rows: Rows, selection: Selection) -> Iterator[bytes]:
    """Write the file of the selected rows.

    Raises FormatCannotHold with the first column that Parquet does not support, and the errors of
    `Rows`.
    """
    _check_schema(rows.schema)
    return _write_file(rows, select_batches(rows, selection))


def _check_schema(schema: Schema) -> None:
    if not schema.columns:
        raise FormatCannotHold("Parquet cannot hold a result without columns. Read it as JSON.")
    if name := find_duplicate(schema.names):
        raise FormatCannotHold(
            f"Parquet cannot hold two columns named {name!r} (case is ignored)."
            " Rename one of them, or read the result in another format."
        )
    for column in schema.columns:
        if obstacle := _find_obstacle(column.type):
            raise FormatCannotHold(
                f"Parquet cannot hold column {column.name!r}: it has {obstacle}."
                " Read the result in another format."
            )


def _find_obstacle(spark_type: SparkType) -> str | None:
    """Return what Parquet does not support about a type, or None."""
    if spark_type.kind is TypeKind.STRUCT:
        if not spark_type.children:
            return "a struct without fields"
        if name := find_duplicate(spark_type.names):
            return f"a struct with two fields named {name!r} (case is ignored)"
    return next(filter(None, map(_find_obstacle, spark_type.children)), None)


def _write_file(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    client_schema = build_client_schema(rows.schema, json.dumps(rows.schema.spark))
    fields = [field.with_type(_parquet_type(field.type)) for field in client_schema]
    metadata = {
        _SPARK_SCHEMA_KEY: json.dumps(_replace_unreadable_types(rows.schema.spark)).encode()
    }
    schema = pa.schema(fields, metadata=metadata)
    buffer = StreamBuffer()
    with pq.ParquetWriter(pa.PythonFile(buffer, "w"), schema) as writer:
        for batch in batches:
            writer.write_batch(_cast_batch(apply_schema(batch, client_schema), schema))
            yield buffer.drain()
    yield buffer.drain()


def _replace_unreadable_types(spark: Any) -> Any:
    """Return Spark's schema JSON with structs for types that Spark cannot read from Parquet."""
    if isinstance(spark, dict):
        return {
            key: _replace_unreadable_types(value) if key in _KEYS_WITH_TYPES else value
            for key, value in spark.items()
        }
    if isinstance(spark, list):
        return [_replace_unreadable_types(item) for item in spark]
    if spark == "interval":
        return _struct_json(months="integer", days="integer", microseconds="long")
    if spark.startswith(("geometry(", "geography(")):
        return _struct_json(srid="integer", wkb="binary")
    return spark


def _struct_json(**types: str) -> dict[str, Any]:
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, type_ in types.items()
    ]
    return {"type": "struct", "fields": fields}


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    # Arrow cannot cast lists of nulls, so a column that has its type already is not cast. Spark's
    # times have no nanoseconds, but a forged time may have some.
    arrays = [
        array if array.type == field.type else array.cast(field.type, safe=False)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _parquet_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that Spark can read from Parquet: times in microseconds."""
    if pa.types.is_time64(type_):
        return pa.time64("us")
    if pa.types.is_map(type_):
        return pa.map_(_parquet_field(type_.key_field), _parquet_field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_parquet_field(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_parquet_field(type_.field(index)) for index in range(type_.num_fields)])
    return type_


def _parquet_field(field: pa.Field) -> pa.Field:
    return field.with_type(_parquet_type(field.type))
