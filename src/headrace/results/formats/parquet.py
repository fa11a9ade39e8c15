"""Parquet with the real names, readable by Spark with its own types.

Spark's schema is in the file's metadata where Spark's own writer puts it, so that intervals and
other types that Parquet has no like of come back as they were. Calendar intervals and geometries,
which Spark does not read from Parquet, are the structs that they are in Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import FormatCannotHold
from headrace.results.batches import relabel
from headrace.results.formats.select import select_batches
from headrace.results.layout import shown_schema
from headrace.results.reader import Rows
from headrace.results.schema import Schema, SparkType, TypeKind, repeated

MEDIA_TYPE = "application/vnd.apache.parquet"

_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"


def write(rows: Rows, chunk: int | None) -> Iterator[bytes]:
    """The file of one chunk, or of the whole result.

    Raises FormatCannotHold with the first column that Parquet has no place for, and as `Rows` does.
    """
    _check(rows.schema)
    return _file(rows, select_batches(rows, chunk))


def _check(schema: Schema) -> None:
    if not schema.columns:
        raise FormatCannotHold("Parquet cannot hold a result without columns")
    if name := repeated(schema.names):
        raise FormatCannotHold(f"Parquet cannot hold two columns named {name!r} (case is ignored)")
    for column in schema.columns:
        if reason := _obstacle(column.type):
            raise FormatCannotHold(f"Parquet cannot hold column {column.name!r}: {reason}")


def _obstacle(kind: SparkType) -> str | None:
    if kind.kind is TypeKind.STRUCT:
        if not kind.children:
            return "it has a struct without fields"
        if name := repeated(kind.names):
            return f"it has a struct with two fields named {name!r} (case is ignored)"
    return next(filter(None, map(_obstacle, kind.children)), None)


def _file(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    shown = shown_schema(rows.schema, json.dumps(rows.schema.spark))
    schema = pa.schema([field.with_type(_held(field.type)) for field in shown])
    metadata = {_SPARK_KEY: json.dumps(_readable(rows.schema.spark)).encode()}
    drain = _Drain()
    with pq.ParquetWriter(pa.PythonFile(drain, "w"), schema.with_metadata(metadata)) as writer:
        for batch in batches:
            writer.write_batch(_converted(relabel(batch, shown), schema))
            yield drain.taken()
    yield drain.taken()


def _readable(spark: Any) -> Any:
    """Spark's schema JSON, with the types that Spark does not read from Parquet as structs."""
    if isinstance(spark, dict):
        return {key: _readable(value) if key in _TYPED else value for key, value in spark.items()}
    if isinstance(spark, list):
        return [_readable(item) for item in spark]
    if spark == "interval":
        return _struct(months="integer", days="integer", microseconds="long")
    if spark.startswith(("geometry(", "geography(")):
        return _struct(srid="integer", wkb="binary")
    return spark


_TYPED = frozenset({"fields", "type", "elementType", "keyType", "valueType", "sqlType"})


def _struct(**types: str) -> dict[str, Any]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in types.items()
    ]
    return {"type": "struct", "fields": fields}


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    # Only where it is needed: Arrow's cast fails on lists of nulls.
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _held(kind: pa.DataType) -> pa.DataType:
    """The type as Spark reads it from Parquet: times in microseconds."""
    if pa.types.is_time64(kind):
        return pa.time64("us")
    if pa.types.is_map(kind):
        return pa.map_(_held_field(kind.key_field), _held_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_held_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_held_field(kind.field(at)) for at in range(kind.num_fields)])
    return kind


def _held_field(field: pa.Field) -> pa.Field:
    return field.with_type(_held(field.type))


class _Drain:
    """A file to write to, whose content is taken away as it grows."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._position = 0
        self.closed = False

    def write(self, content: bytes) -> int:
        self._content += content
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        content = bytes(self._content)
        self._content.clear()
        return content
