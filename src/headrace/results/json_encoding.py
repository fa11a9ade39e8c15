"""Columns as JSON: an array of JSON texts for every column, `null` where there is no value."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from headrace.results.schema import SparkType, TypeKind
from headrace.results.text_encoding import encode_text, readable, replace_where

_MOST_EXACT = 2**53 - 1
"""JSON numbers are doubles to most readers, and those hold integers up to here (RFC 8259, 6)."""
_EXACT_DIGITS = 15
_TO_ESCAPE = r'["\\\x00-\x1f]'

_WKB = SparkType(TypeKind.BINARY, "binary")

_BARE = frozenset(
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
    """How JSON has bigint and decimal, which many of its readers take for doubles."""

    TEXT = "text"  # strings
    PLAIN = "plain"  # numbers where a double holds them exactly, strings elsewhere
    ALWAYS = "always"  # numbers, with all their digits


def encode_column(array: pa.Array, kind: SparkType, *, numbers: NumberFormat) -> pa.Array:
    """The JSON text of each value.

    `numbers` is about bigint and decimal.
    """
    if not len(array):
        return pa.nulls(0, pa.string())
    return pc.fill_null(_tokens(array, kind, numbers=numbers), "null")


def _tokens(array: pa.Array, kind: SparkType, *, numbers: NumberFormat) -> pa.Array:
    if nested := _NESTED.get(kind.kind):
        return nested(array, kind, numbers)
    if kind.kind is TypeKind.STRING:
        return _escaped(readable(array))
    text = encode_text(array, kind)
    if kind.kind in _BARE:
        return text
    if kind.kind in {TypeKind.FLOAT, TypeKind.DOUBLE}:
        return pc.if_else(pc.is_finite(array), text, _quoted(text))
    if kind.kind in {TypeKind.LONG, TypeKind.DECIMAL} and numbers is not NumberFormat.TEXT:
        return text if numbers is NumberFormat.ALWAYS else _exact(array, kind, text)
    return _quoted(text)


def _quoted(text: pa.Array) -> pa.Array:
    """Text that needs no escapes, as JSON strings."""
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    mask = pc.match_substring_regex(text, _TO_ESCAPE)
    return replace_where(
        _quoted(text), mask, lambda value: json.dumps(value, ensure_ascii=False), text
    )


def _exact(array: pa.Array, kind: SparkType, text: pa.Array) -> pa.Array:
    """Numbers where a reader's double holds the value, strings elsewhere."""
    if kind.kind is TypeKind.DECIMAL:
        if kind.precision <= _EXACT_DIGITS:
            return text
        digits = pc.replace_substring_regex(text, r"^-?(0\.0*)?|\.", "")
        exact = pc.less_equal(pc.binary_length(digits), _EXACT_DIGITS)
    else:
        exact = pc.and_(pc.less_equal(array, _MOST_EXACT), pc.greater_equal(array, -_MOST_EXACT))
    return pc.if_else(exact, text, _quoted(text))


def _list(array: pa.Array, kind: SparkType, numbers: NumberFormat) -> pa.Array:
    start, end, offsets = _extent(array)
    items = encode_column(array.values.slice(start, end - start), kind.children[0], numbers=numbers)
    return _joined(array, offsets, items)


def _map(array: pa.Array, kind: SparkType, numbers: NumberFormat) -> pa.Array:
    start, end, offsets = _extent(array)
    key, value = kind.children
    keys = encode_column(array.keys.slice(start, end - start), key, numbers=numbers)
    values = encode_column(array.items.slice(start, end - start), value, numbers=numbers)
    return _joined(array, offsets, _between("[", _with_commas([keys, values]), "]"))


def _struct(array: pa.Array, kind: SparkType, numbers: NumberFormat) -> pa.Array:
    """Objects; lists of [name, value] pairs where names repeat, which no object can hold."""
    pairs = len(set(kind.names)) != len(kind.names)
    opening, separator, closing = ("[", ",", "]") if pairs else ("", ":", "")
    members = [
        _between(
            opening + json.dumps(name) + separator,
            encode_column(field, child, numbers=numbers),
            closing,
        )
        for name, field, child in zip(kind.names, array.flatten(), kind.children, strict=True)
    ]
    inner = _with_commas(members) if members else pa.repeat("", len(array))
    whole = _between("[", inner, "]") if pairs else _between("{", inner, "}")
    return _nulls_of(array, whole)


def _shape(array: pa.Array, _kind: SparkType, _numbers: NumberFormat) -> pa.Array:
    srid, wkb = array.flatten()
    coded = encode_text(wkb, _WKB)
    return _between(
        '{"srid":', pc.binary_join_element_wise(srid.cast(pa.string()), coded, ',"wkb":"'), '"}'
    )


def _extent(array: pa.Array) -> tuple[int, int, pa.Array]:
    """Which values a (maybe sliced) list array spans, and its offsets counted from the first."""
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return start, end, pc.subtract(offsets, offsets[0])


def _joined(array: pa.Array, offsets: pa.Array, items: pa.Array) -> pa.Array:
    lists = pa.ListArray.from_arrays(offsets, items)
    return _nulls_of(array, _between("[", pc.binary_join(lists, ","), "]"))


def _with_commas(columns: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*columns, ",")


def _between(opening: str, text: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, text, closing, "")


def _nulls_of(array: pa.Array, text: pa.Array) -> pa.Array:
    if not array.null_count:
        return text
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def encode_rows(
    batch: pa.RecordBatch, kinds: list[SparkType], *, numbers: NumberFormat
) -> pa.Array:
    """The rows of a batch as JSON lists."""
    if not kinds:
        return pa.repeat("[]", batch.num_rows)
    columns = [
        encode_column(array, kind, numbers=numbers)
        for array, kind in zip(batch.columns, kinds, strict=True)
    ]
    return _between("[", _with_commas(columns), "]")


_NESTED: dict[TypeKind, Callable[[pa.Array, SparkType, NumberFormat], pa.Array]] = {
    TypeKind.ARRAY: _list,
    TypeKind.MAP: _map,
    TypeKind.STRUCT: _struct,
    TypeKind.GEOMETRY: _shape,
    TypeKind.GEOGRAPHY: _shape,
}
