"""Record batches: measuring, cutting and relabelling them.

Executors get this module by value (they need no Headrace), so it imports nothing but pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def size(batch: pa.RecordBatch) -> int:
    """Bytes of a batch: those of its Arrow buffers, and at least one a row."""
    return max(int(batch.nbytes), int(batch.num_rows))


def rows_within(batch: pa.RecordBatch, limit: int) -> int:
    """How many of a batch's first rows take `limit` bytes at most."""
    low, high = 0, int(batch.num_rows)
    while low < high:
        middle = (low + high + 1) // 2
        if size(batch.slice(0, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def split(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of `limit` bytes at most; a larger row is a piece of its own."""
    while size(batch) > limit and batch.num_rows > 1:
        rows = max(1, rows_within(batch, limit))
        yield batch.slice(0, rows)
        batch = batch.slice(rows)
    if batch.num_rows:
        yield batch


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of Spark's in the stored form, in small types whatever the session's settings.

    (spark.sql.execution.arrow.useLargeVarTypes.) Raises TypeError as `relabel` does.
    """
    arrays = [
        array if (small := _small(array.type)) == array.type else array.cast(small)
        for array in batch.columns
    ]
    if arrays:
        batch = pa.RecordBatch.from_arrays(arrays, names=[""] * len(arrays))
    return relabel(batch, schema)


def relabel(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same values under other names, or under types of the same layout.

    Raises TypeError where the layouts differ: buffers must never be read as what they are not.
    """
    if batch.schema.equals(schema):
        return batch
    if not same_layout(pa.struct(batch.schema), pa.struct(schema)):
        raise TypeError(f"{batch.schema} is not laid out as {schema}")
    kinds = [(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    if kinds and all(array.type == kind or not pa.types.is_nested(kind) for array, kind in kinds):
        arrays = [array if array.type == kind else array.view(kind) for array, kind in kinds]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # A message holds values alone: names are the schema's, which travels apart.
    return pa.ipc.read_record_batch(batch.serialize(), schema)


def same_layout(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether arrays of both types have the same buffers, whatever their names."""
    if one.num_fields != other.num_fields:
        return False
    if pa.types.is_nested(one):
        # A map is a list of its entries.
        return _shape(one) == _shape(other) and all(
            same_layout(one.field(index).type, other.field(index).type)
            for index in range(one.num_fields)
        )
    return bool(_stripped(one) == _stripped(other))


def _small(kind: pa.DataType) -> pa.DataType:
    """The type with 32-bit offsets throughout."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(_small_field(kind.key_field), _small_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_small_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_small_field(kind.field(at)) for at in range(kind.num_fields)])
    return kind


def _small_field(field: pa.Field) -> pa.Field:
    return field.with_type(_small(field.type))


def _shape(kind: pa.DataType) -> str:
    return "list" if pa.types.is_list(kind) or pa.types.is_map(kind) else str(kind.id)


def _stripped(kind: pa.DataType) -> pa.DataType:
    """A timestamp without its zone: the zone is a label of the same microseconds."""
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
