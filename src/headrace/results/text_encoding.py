"""Columns as text: the encoding that the JSON and CSV formats share.

Whole columns are converted by Arrow's kernels where Arrow supports the text form, and value by
value elsewhere. The text columns keep the nulls of the original columns.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.instants import (
    format_calendar,
    format_date,
    format_day_time,
    format_instant,
    format_year_month,
)
from headrace.results.schema import SparkType, TypeKind
from headrace.results.variant import variant_to_json

# Arrow formats dates as ISO 8601 only from 0001-01-01 to 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MICROS = 86_400_000_000
_CHARACTERS_PER_VARIANT_BYTE = 64
_MIN_VARIANT_CHARACTERS, _MAX_VARIANT_CHARACTERS = 1 << 20, 1 << 30


def encode_text(array: pa.Array, spark_type: SparkType) -> pa.Array:
    """Return a column of any type that is not nested as text, in the form of an unquoted CSV field.

    Raises InvalidResult if a variant cannot be read.
    """
    encode = _ENCODERS.get(spark_type.kind)
    return encode(array, spark_type) if encode else array.cast(pa.string())


def replace_invalid_utf8(array: pa.Array) -> pa.Array:
    """Return a column of strings with invalid bytes replaced by U+FFFD.

    Spark does not check that the bytes of a string are UTF-8.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return _map_values(array.view(pa.binary()), lambda value: value.decode(errors="replace"))
    return array


def replace_where(text: pa.Array, mask: pa.Array, encode: Callable[[Any], str], values: Any) -> Any:
    """Return the text column with `encode(value)` wherever the mask is true."""
    if not pc.any(mask).as_py():
        return text
    mask = pc.fill_null(mask, False)
    selected = values.filter(mask).to_pylist()
    replacements = pa.array([encode(value) for value in selected], pa.string())
    return pc.replace_with_mask(text, mask, replacements)


def _map_values(array: pa.Array, encode: Callable[[Any], str]) -> pa.Array:
    values = (None if value is None else encode(value) for value in array.to_pylist())
    return pa.array(values, pa.string(), size=len(array))


def _encode_string(array: pa.Array, _type: SparkType) -> pa.Array:
    return replace_invalid_utf8(array)


def _encode_void(array: pa.Array, _type: SparkType) -> pa.Array:
    return pa.nulls(len(array), pa.string())


def _encode_binary(array: pa.Array, _type: SparkType) -> pa.Array:
    return _map_values(array, lambda value: base64.b64encode(value).decode())


def _encode_year_month(array: pa.Array, spark_type: SparkType) -> pa.Array:
    return _map_values(array, lambda value: format_year_month(value, spark_type.sql))


def _encode_day_time(array: pa.Array, spark_type: SparkType) -> pa.Array:
    micros = array.view(pa.int64())
    return _map_values(micros, lambda value: format_day_time(value, spark_type.sql))


def _encode_calendar(array: pa.Array, _type: SparkType) -> pa.Array:
    return _map_values(array, lambda value: format_calendar(*value.values()))


def _encode_variant(array: pa.Array, _type: SparkType) -> pa.Array:
    # The text of all values is bounded: a variant has the bytes of a key once, JSON in each object.
    characters_left = max(_MIN_VARIANT_CHARACTERS, _CHARACTERS_PER_VARIANT_BYTE * array.nbytes)
    characters_left = min(characters_left, _MAX_VARIANT_CHARACTERS)

    def encode(parts: dict[str, bytes]) -> str:
        nonlocal characters_left
        value, metadata = parts.values()
        text = variant_to_json(value, metadata, characters_left)
        characters_left -= len(text)
        return text

    return _map_values(array, encode)


def _encode_time(array: pa.Array, _type: SparkType) -> pa.Array:
    # Spark's times have no nanoseconds, but a forged time may have some.
    return array.cast(pa.time64("us"), safe=False).cast(pa.string())


def _encode_float(array: pa.Array, _type: SparkType) -> pa.Array:
    text = array.cast(pa.string())
    # Write 1.0 instead of 1, so that readers can distinguish floats from integers.
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return text
    # Arrow writes nan and inf.
    text = pc.replace_substring(text, "nan", "NaN")
    return pc.replace_substring(text, "inf", "Infinity")


def _encode_decimal(array: pa.Array, _type: SparkType) -> pa.Array:
    text = array.cast(pa.string())
    # Arrow writes small decimals with an exponent, for example 1E-7.
    mask = pc.match_substring(text, "E")
    return replace_where(text, mask, lambda value: format(value, "f"), array)


def _encode_date(array: pa.Array, _type: SparkType) -> pa.Array:
    days = array.view(pa.int32())
    supported = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    arrow_days = pc.if_else(supported, days, pa.scalar(0, pa.int32()))
    text = arrow_days.view(pa.date32()).cast(pa.string())
    return replace_where(text, pc.invert(supported), format_date, days)


def _encode_timestamp_ntz(array: pa.Array, _type: SparkType) -> pa.Array:
    micros = array.view(pa.int64())
    first, end = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS
    supported = pc.and_(pc.greater_equal(micros, first), pc.less(micros, end))
    arrow_micros = pc.if_else(supported, micros, pa.scalar(0, pa.int64()))
    text = arrow_micros.view(pa.timestamp("us")).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return replace_where(
        text, pc.invert(supported), lambda value: format_instant(value, 1_000_000), micros
    )


def _encode_timestamp(array: pa.Array, spark_type: SparkType) -> pa.Array:
    return pc.binary_join_element_wise(_encode_timestamp_ntz(array, spark_type), "Z", "")


_ENCODERS: dict[TypeKind, Callable[[pa.Array, SparkType], pa.Array]] = {
    TypeKind.STRING: _encode_string,
    TypeKind.BINARY: _encode_binary,
    TypeKind.VOID: _encode_void,
    TypeKind.FLOAT: _encode_float,
    TypeKind.DOUBLE: _encode_float,
    TypeKind.DECIMAL: _encode_decimal,
    TypeKind.DATE: _encode_date,
    TypeKind.TIMESTAMP: _encode_timestamp,
    TypeKind.TIMESTAMP_NTZ: _encode_timestamp_ntz,
    TypeKind.TIME: _encode_time,
    TypeKind.YEAR_MONTH: _encode_year_month,
    TypeKind.DAY_TIME: _encode_day_time,
    TypeKind.CALENDAR: _encode_calendar,
    TypeKind.VARIANT: _encode_variant,
}
