"""Columns as JSON: each value becomes a JSON text, and a missing value becomes `null`."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import FormatCannotHold
from headrace.results.batches import list_children
from headrace.results.schema import SparkType, TypeKind
from headrace.results.text_encoding import encode_text, replace_invalid_utf8, replace_where

_MAX_EXACT_INTEGER = 2**53 - 1
"""Most JSON readers use doubles, which are exact for integers up to this value (RFC 8259, 6)."""
_EXACT_DIGITS = 15
"""A decimal of at most this many digits is unchanged when a reader converts it to a double."""
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'

_MAX_NAME_CHARACTERS = 1 << 29
"""Largest size of the field names that the JSON text of a record batch repeats."""

_WKB_TYPE = SparkType(TypeKind.BINARY, "binary")

_UNQUOTED_KINDS = frozenset(
    {
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INTEGER,
        TypeKind.VARIANT,
        TypeKind.VOID,
    }
)


class NumberFormat(StrEnum):
    """Form of bigint and decimal values in JSON, which many readers convert to doubles."""

    TEXT = "text"  # strings
    PLAIN = "plain"  # numbers if a double is exact, else strings
    ALWAYS = "always"  # numbers, with all their digits


def encode_rows(
    batch: pa.RecordBatch, types: list[SparkType], *, numbers: NumberFormat
) -> pa.Array:
    """Return each row of a batch as a JSON list. `types` are the types of the columns.

    Raises the errors of `check_field_names`.
    """
    if not types:
        return pa.repeat("[]", batch.num_rows)
    check_field_names(batch, types)
    columns = [
        encode_column(array, spark_type, numbers=numbers)
        for array, spark_type in zip(batch.columns, types, strict=True)
    ]
    return _enclose("[", _join_with_commas(columns), "]")


def check_field_names(
    batch: pa.RecordBatch, types: list[SparkType], *, limit: int = _MAX_NAME_CHARACTERS
) -> None:
    """Raise FormatCannotHold if the names of struct fields would be most of a huge text.

    A schema has a name once, JSON has it in every struct.
    """
    if sum(map(_count_name_characters, batch.columns, types)) > limit:
        raise FormatCannotHold(
            f"The names of struct fields would be more than {limit} characters of"
            " the JSON text. Read the result as Arrow."
        )


def _count_name_characters(array: pa.Array, spark_type: SparkType) -> int:
    if not spark_type.contains(TypeKind.STRUCT):
        return 0
    own = len(array) * sum(map(len, spark_type.names))
    return own + sum(map(_count_name_characters, list_children(array), spark_type.children))


def encode_column(array: pa.Array, spark_type: SparkType, *, numbers: NumberFormat) -> pa.Array:
    """Return each value of a column as JSON text. `numbers` applies to bigint and decimal."""
    if not len(array):
        return pa.nulls(0, pa.string())
    return pc.fill_null(_encode_values(array, spark_type, numbers=numbers), "null")


def _encode_values(array: pa.Array, spark_type: SparkType, *, numbers: NumberFormat) -> pa.Array:
    """Return each value as JSON text, or as null."""
    kind = spark_type.kind
    if encode := _NESTED_ENCODERS.get(kind):
        return encode(array, spark_type, numbers)
    if kind is TypeKind.STRING:
        return _quote_and_escape(replace_invalid_utf8(array))
    text = encode_text(array, spark_type)
    if kind in _UNQUOTED_KINDS:
        return text
    if kind in {TypeKind.FLOAT, TypeKind.DOUBLE}:
        return pc.if_else(pc.is_finite(array), text, _quote(text))
    if kind in {TypeKind.LONG, TypeKind.DECIMAL} and numbers is not NumberFormat.TEXT:
        return text if numbers is NumberFormat.ALWAYS else _quote_inexact(array, spark_type, text)
    return _quote(text)


def _quote(text: pa.Array) -> pa.Array:
    """Return JSON strings of text without characters that need an escape."""
    return pc.binary_join_element_wise('"', text, '"', "")


def _quote_and_escape(text: pa.Array) -> pa.Array:
    mask = pc.match_substring_regex(text, _NEEDS_ESCAPE)
    return replace_where(
        _quote(text), mask, lambda value: json.dumps(value, ensure_ascii=False), text
    )


def _quote_inexact(array: pa.Array, spark_type: SparkType, text: pa.Array) -> pa.Array:
    """Return numbers if a double holds the value exactly, else strings."""
    if spark_type.kind is TypeKind.DECIMAL:
        if spark_type.precision <= _EXACT_DIGITS:
            return text
        digits = pc.replace_substring_regex(text, r"^-?(0\.0*)?|\.", "")
        exact = pc.less_equal(pc.binary_length(digits), _EXACT_DIGITS)
    else:
        exact = pc.and_(
            pc.less_equal(array, _MAX_EXACT_INTEGER), pc.greater_equal(array, -_MAX_EXACT_INTEGER)
        )
    return pc.if_else(exact, text, _quote(text))


def _encode_list(array: pa.Array, spark_type: SparkType, numbers: NumberFormat) -> pa.Array:
    start, end, offsets = _values_range(array)
    values = array.values.slice(start, end - start)
    items = encode_column(values, spark_type.children[0], numbers=numbers)
    return _join_items(array, offsets, items)


def _encode_map(array: pa.Array, spark_type: SparkType, numbers: NumberFormat) -> pa.Array:
    """Return lists of [key, value] pairs."""
    start, end, offsets = _values_range(array)
    key, value = spark_type.children
    keys = encode_column(array.keys.slice(start, end - start), key, numbers=numbers)
    values = encode_column(array.items.slice(start, end - start), value, numbers=numbers)
    return _join_items(array, offsets, _enclose("[", _join_with_commas([keys, values]), "]"))


def _encode_struct(array: pa.Array, spark_type: SparkType, numbers: NumberFormat) -> pa.Array:
    """Return objects, or lists of [name, value] pairs if names repeat."""
    names = spark_type.names
    pairs = len(set(names)) != len(names)
    opening, separator, closing = ("[", ",", "]") if pairs else ("", ":", "")
    members = [
        _enclose(
            opening + json.dumps(name) + separator,
            encode_column(field, child, numbers=numbers),
            closing,
        )
        for name, field, child in zip(names, array.flatten(), spark_type.children, strict=True)
    ]
    content = _join_with_commas(members) if members else pa.repeat("", len(array))
    text = _enclose("[", content, "]") if pairs else _enclose("{", content, "}")
    return _copy_nulls(array, text)


def _encode_geo(array: pa.Array, _type: SparkType, _numbers: NumberFormat) -> pa.Array:
    """Return objects of srid and WKB; WKB is base64."""
    srid, wkb = array.flatten()
    encoded_wkb = encode_text(wkb, _WKB_TYPE)
    content = pc.binary_join_element_wise(srid.cast(pa.string()), encoded_wkb, ',"wkb":"')
    return _enclose('{"srid":', content, '"}')


def _values_range(array: pa.Array) -> tuple[int, int, pa.Array]:
    """Return start and end of the values of a list array, and its offsets relative to the start.

    A sliced list array refers to a part of its values only.
    """
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return start, end, pc.subtract(offsets, offsets[0])


def _join_items(array: pa.Array, offsets: pa.Array, items: pa.Array) -> pa.Array:
    lists = pa.ListArray.from_arrays(offsets, items)
    return _copy_nulls(array, _enclose("[", pc.binary_join(lists, ","), "]"))


def _join_with_commas(columns: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*columns, ",")


def _enclose(opening: str, text: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, text, closing, "")


def _copy_nulls(array: pa.Array, text: pa.Array) -> pa.Array:
    """Return the text with a null wherever the array has one."""
    if not array.null_count:
        return text
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


_NESTED_ENCODERS: dict[TypeKind, Callable[[pa.Array, SparkType, NumberFormat], pa.Array]] = {
    TypeKind.ARRAY: _encode_list,
    TypeKind.MAP: _encode_map,
    TypeKind.STRUCT: _encode_struct,
    TypeKind.GEOMETRY: _encode_geo,
    TypeKind.GEOGRAPHY: _encode_geo,
}
