"""Arrow arrays as Arrow for Java writes them, from which Spark's results come."""

from __future__ import annotations

import pyarrow as pa


def write_as_java(array: pa.Array) -> pa.Array:
    """Return the array, without any bytes for the offsets of lists and maps that have no values."""
    type_, count = array.type, len(array)
    if not pa.types.is_nested(type_):
        return array
    if pa.types.is_struct(type_):
        children = [write_as_java(array.field(index)) for index in range(type_.num_fields)]
        return pa.Array.from_buffers(type_, count, array.buffers()[:1], children=children)
    if pa.types.is_map(type_):
        parts = [write_as_java(part) for part in (array.keys, array.items)]
        entries = pa.struct([type_.key_field, type_.item_field])
        values = pa.Array.from_buffers(entries, len(parts[0]), [None], children=parts)
    else:
        values = write_as_java(array.values)
    validity, offsets, *_ = array.buffers()
    buffers = [validity, offsets if count else pa.py_buffer(b"")]
    return pa.Array.from_buffers(type_, count, buffers, children=[values])
