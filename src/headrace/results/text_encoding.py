"""Columns as text: what the JSON and CSV formats share.

Everything is done by column, with Arrow's kernels where they have the words, value by value only
where they have not. Arrays of text keep the nulls of the column.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.results.instants import date_text, instant_text
from headrace.results.intervals import calendar_text, day_time_text, year_month_text
from headrace.results.schema import SparkType, TypeKind
from headrace.results.variant import variant_json

# Within these years Arrow and ISO 8601 agree: 0001-01-01 to 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MICROS = 86_400_000_000


def encode_text(array: pa.Array, kind: SparkType) -> pa.Array:
    """The text of a column of any type that is not nested, as CSV shows it unquoted."""
    written = _WRITTEN.get(kind.kind)
    return written(array, kind) if written else array.cast(pa.string())


def readable(array: pa.Array) -> pa.Array:
    """Strings as UTF-8. Spark lets any bytes be a string; those that are no text become U+FFFD."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return _each(array.view(pa.binary()), lambda value: value.decode(errors="replace"))
    return array


def replace_where(
    text: pa.Array, mask: pa.Array, written: Callable[[Any], str], values: Any
) -> Any:
    """The text with `written(value)` in the places that a mask names."""
    if not pc.any(mask).as_py():
        return text
    mask = pc.fill_null(mask, False)
    chosen = values.filter(mask).to_pylist()
    return pc.replace_with_mask(text, mask, pa.array([written(v) for v in chosen], pa.string()))


def _each(array: pa.Array, written: Callable[[Any], str]) -> pa.Array:
    values = (None if value is None else written(value) for value in array.to_pylist())
    return pa.array(values, pa.string(), size=len(array))


def _void_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    return pa.nulls(len(array), pa.string())


def _binary_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    return _each(array, lambda value: base64.b64encode(value).decode())


def _year_month_text(array: pa.Array, kind: SparkType) -> pa.Array:
    return _each(array, lambda value: year_month_text(value, kind.sql))


def _day_time_text(array: pa.Array, kind: SparkType) -> pa.Array:
    return _each(array.view(pa.int64()), lambda value: day_time_text(value, kind.sql))


def _calendar_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    return _each(array, lambda value: calendar_text(*value.values()))


def _variant_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    return _each(array, lambda value: variant_json(*value.values()))


def _time_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    return array.cast(pa.time64("us")).cast(pa.string())


def _float_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    text = array.cast(pa.string())
    # 1 as 1.0: it tells a double from an int. Arrow's words for what is no number are nan and inf.
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return text
    text = pc.replace_substring(text, "nan", "NaN")
    return pc.replace_substring(text, "inf", "Infinity")


def _decimal_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    text = array.cast(pa.string())
    # Arrow writes small ones as 1E-7.
    mask = pc.match_substring(text, "E")
    return replace_where(text, mask, lambda value: format(value, "f"), array)


def _date_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    days = array.view(pa.int32())
    usual = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    known = pc.if_else(usual, days, pa.scalar(0, pa.int32()))
    text = known.view(pa.date32()).cast(pa.string())
    return replace_where(text, pc.invert(usual), date_text, days)


def _instant_text(array: pa.Array, _kind: SparkType) -> pa.Array:
    micros = array.view(pa.int64())
    first, last = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS
    usual = pc.and_(pc.greater_equal(micros, first), pc.less(micros, last))
    known = pc.if_else(usual, micros, pa.scalar(0, pa.int64()))
    text = known.view(pa.timestamp("us")).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return replace_where(
        text, pc.invert(usual), lambda value: instant_text(value, 1_000_000), micros
    )


def _utc_text(array: pa.Array, kind: SparkType) -> pa.Array:
    return pc.binary_join_element_wise(_instant_text(array, kind), "Z", "")


_WRITTEN: dict[TypeKind, Callable[[pa.Array, SparkType], pa.Array]] = {
    TypeKind.STRING: lambda array, _kind: readable(array),
    TypeKind.BINARY: _binary_text,
    TypeKind.VOID: _void_text,
    TypeKind.FLOAT: _float_text,
    TypeKind.DOUBLE: _float_text,
    TypeKind.DECIMAL: _decimal_text,
    TypeKind.DATE: _date_text,
    TypeKind.TIMESTAMP: _utc_text,
    TypeKind.TIMESTAMP_NTZ: _instant_text,
    TypeKind.TIME: _time_text,
    TypeKind.YEAR_MONTH: _year_month_text,
    TypeKind.DAY_TIME: _day_time_text,
    TypeKind.CALENDAR: _calendar_text,
    TypeKind.VARIANT: _variant_text,
}
