"""Arrow record batches: size, splitting, change of schema and serialisation.

Headrace is not installed on executors, so Spark tasks carry this module by value. It imports only
pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

MAX_VALUES = 1 << 24
"""Largest number of values of a batch that has less than one byte for each value.

Arrow needs no bytes for nulls of the type void and for structs without fields, and one bit for a
boolean. Every value becomes text in the node that reads the batch.
"""


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch's Arrow buffers, but at least 1 per row and per value."""
    return max(int(batch.nbytes), count_values(batch))


def count_values(batch: pa.RecordBatch) -> int:
    """Return the number of values at all depths, nulls included, but at least 1 per row."""
    return max(int(batch.num_rows), sum(map(_count_array_values, batch.columns)))


def _count_array_values(array: pa.Array) -> int:
    """Return the number of values of an array and, at all depths, of its children."""
    return len(array) + sum(map(_count_array_values, list_children(array)))


def list_children(array: pa.Array) -> list[pa.Array]:
    """Return the fields of structs, the keys and values of maps, or the values of lists.

    A sliced list or map refers to a part of its values only: the children are these values.
    """
    count, type_ = len(array), array.type
    if not count or not pa.types.is_nested(type_):
        return []
    if pa.types.is_struct(type_):
        return [array.field(index) for index in range(type_.num_fields)]
    start, end = array.offsets[0].as_py(), array.offsets[count].as_py()
    values = [array.keys, array.items] if pa.types.is_map(type_) else [array.values]
    return [child.slice(start, end - start) for child in values]


def complete_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with an offset in every list that has no values.

    Arrow for Java writes no bytes for the offsets of such a list, for example of an array in an
    array that is empty in each row. `RecordBatch.nbytes` and `ListArray.offsets` of pyarrow read
    the first offset nevertheless: the process crashes, or reads foreign memory.
    """
    columns = batch.columns
    completed = _complete_arrays(columns)
    if completed is columns:
        return batch
    return pa.RecordBatch.from_arrays(completed, schema=batch.schema)


def _complete_arrays(arrays: list[pa.Array]) -> list[pa.Array]:
    """Return the arrays with complete offsets, or the same list if none is missing in them."""
    completed = list(map(_complete_array, arrays))
    is_unchanged = all(new is old for new, old in zip(completed, arrays, strict=True))
    return arrays if is_unchanged else completed


def _complete_array(array: pa.Array) -> pa.Array:
    """Return an array with complete offsets, or the same array if none is missing in it."""
    type_ = array.type
    if not pa.types.is_nested(type_):
        return array
    if not len(array):
        return pa.nulls(0, type_)
    if pa.types.is_struct(type_):
        children = [array.field(index) for index in range(type_.num_fields)]
    elif pa.types.is_map(type_):
        children = [array.keys, array.items]
    else:
        children = [array.values]
    completed = _complete_arrays(children)
    return array if completed is children else _replace_children(array, completed)


def _replace_children(array: pa.Array, children: list[pa.Array]) -> pa.Array:
    type_ = array.type
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    values = children[0]
    if pa.types.is_map(type_):
        fields = [type_.key_field, type_.item_field]
        values = pa.StructArray.from_arrays(children, fields=fields)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        type_, len(array), buffers, array.null_count, array.offset, [values]
    )


def count_rows_within(batch: pa.RecordBatch, limit: int) -> int:
    """Return how many of the first rows of a batch fit into `limit` bytes."""
    low, high = 0, int(batch.num_rows)
    while low < high:
        middle = (low + high + 1) // 2
        if batch_bytes(batch.slice(0, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def split_batch(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of at most `limit` bytes.

    A row that is larger than the limit becomes a slice of its own. An empty batch has no slices.
    """
    while batch_bytes(batch) > limit and batch.num_rows > 1:
        rows = max(1, count_rows_within(batch, limit))
        yield batch.slice(0, rows)
        batch = batch.slice(rows)
    if batch.num_rows:
        yield batch


def group_by_size(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield the batches in groups of at most `limit` bytes.

    A batch that is larger than the limit becomes a group of its own.
    """
    group: list[pa.RecordBatch] = []
    group_bytes = 0
    for batch in batches:
        size = batch_bytes(batch)
        if group and group_bytes + size > limit:
            yield group
            group, group_bytes = [], 0
        group.append(batch)
        group_bytes += size
    if group:
        yield group


def normalize_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch from Spark to a stored schema (`headrace.results.layout`).

    Spark writes 64-bit offsets if spark.sql.execution.arrow.useLargeVarTypes is set; results always
    have 32-bit offsets. Raises TypeError if the layouts differ (see `apply_schema`).
    """
    arrays = [
        array if (small := _small_type(array.type)) == array.type else array.cast(small)
        for array in batch.columns
    ]
    if arrays:
        batch = pa.RecordBatch.from_arrays(arrays, names=[""] * len(arrays))
    return apply_schema(batch, schema)


def apply_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the buffers of a batch under another schema: other names, or types of the same layout.

    Raises TypeError if the layouts differ, because values would then be misread.
    """
    if batch.schema.equals(schema):
        return batch
    if not has_same_layout(pa.struct(batch.schema), pa.struct(schema)):
        raise TypeError(f"a batch of schema {batch.schema} is not laid out as {schema}")
    pairs = [(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    if pairs and all(
        array.type == type_ or not pa.types.is_nested(type_) for array, type_ in pairs
    ):
        arrays = [array if array.type == type_ else array.view(type_) for array, type_ in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # An IPC message contains buffers but no schema, so it can be read with another schema.
    return pa.ipc.read_record_batch(batch.serialize(), schema)


def has_same_layout(first: pa.DataType, second: pa.DataType) -> bool:
    """Return whether arrays of both types have the same buffers. Field names do not matter."""
    if first.num_fields != second.num_fields:
        return False
    if pa.types.is_nested(first):
        return _nesting(first) == _nesting(second) and all(
            has_same_layout(first.field(index).type, second.field(index).type)
            for index in range(first.num_fields)
        )
    return bool(_without_zone(first) == _without_zone(second))


def serialize_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Return the batches as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def replace_leaf_types(
    type_: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]
) -> pa.DataType:
    """Return the type with every type that has no child, at any depth, replaced."""

    def replace_in(field: pa.Field) -> pa.Field:
        return field.with_type(replace_leaf_types(field.type, replace))

    if pa.types.is_map(type_):
        return pa.map_(replace_in(type_.key_field), replace_in(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(replace_in(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([replace_in(type_.field(index)) for index in range(type_.num_fields)])
    return replace(type_)


def enlarge_offsets(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the 64-bit offsets of spark.sql.execution.arrow.useLargeVarTypes."""

    def enlarge(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_string(type_):
            return pa.large_string()
        return pa.large_binary() if pa.types.is_binary(type_) else type_

    return pa.schema([field.with_type(replace_leaf_types(field.type, enlarge)) for field in schema])


def _small_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets at every depth."""
    return replace_leaf_types(type_, _small_leaf)


def _small_leaf(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(type_):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(type_) else type_


def _nesting(type_: pa.DataType) -> str:
    # Arrow lays out a map as a list of its entries.
    return "list" if pa.types.is_list(type_) or pa.types.is_map(type_) else str(type_.id)


def _without_zone(type_: pa.DataType) -> pa.DataType:
    # Timestamps count microseconds since the epoch in UTC; the zone is metadata.
    return pa.timestamp(type_.unit) if pa.types.is_timestamp(type_) else type_
