"""Values as the text that Hive's clients show: decimals, dates, times, intervals, nested values.

The forms are those of Spark's Thrift Server. A nested string is in quotes that nothing escapes, and
a nested NULL is `null`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.instants import format_calendar
from headrace.results.schema import SparkType, TypeKind
from headrace.results.text_encoding import encode_text

_NESTED = frozenset({TypeKind.ARRAY, TypeKind.MAP, TypeKind.STRUCT})
_NTZ = SparkType(TypeKind.TIMESTAMP_NTZ, "timestamp_ntz")
_OFFSET = re.compile(r"^(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?$")
_DAY = 86_400_000_000


def encode_hive_text(array: pa.Array, spark_type: SparkType, zone: str) -> pa.Array:
    """Return a column as text, with its NULLs.

    Args:
        zone: Time zone of the session, in which timestamps are written.

    Raises InvalidResult if a variant cannot be read.
    """
    if spark_type.kind in _NESTED:
        return pa.array(_nested_texts(array, spark_type, zone), pa.string())
    if spark_type.kind is TypeKind.TIMESTAMP:
        return _trim(encode_text(_to_local(array, zone), _NTZ))
    if spark_type.kind is TypeKind.CALENDAR:
        parts = zip(*(part.to_pylist() for part in array.flatten()), strict=True)
        texts = [None if None in each else format_calendar(*each) for each in parts]
        return pa.array(texts, pa.string())
    encode = _ENCODERS.get(spark_type.kind)
    return encode_text(array, spark_type) if encode is None else encode(array)


def arrow_zone(zone: str) -> str:
    """Return the name by which Arrow knows a time zone of Spark, such as `GMT+8` or `+2`."""
    offset = _OFFSET.match(zone)
    if offset is None:
        return "UTC" if zone in {"Z", "GMT", "UT"} else zone
    return f"{offset[1]}{int(offset[2]):02}:{offset[3] or '00'}"


def _to_local(array: pa.Array, zone: str) -> pa.Array:
    return pc.local_timestamp(array.cast(pa.timestamp("us", arrow_zone(zone))))


def _trim(text: pa.Array) -> pa.Array:
    """Return timestamps in the form of Spark, without the zeros at the end of a fraction."""
    text = pc.replace_substring(text, "T", " ", max_replacements=1)
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1")
    return pc.utf8_rtrim(text, ".")


def _map(array: pa.Array, encode: Callable[..., str]) -> pa.Array:
    values = (None if value is None else encode(value) for value in array.to_pylist())
    return pa.array(values, pa.string(), size=len(array))


def _format_year_month(months: int) -> str:
    sign, months = ("-", -months) if months < 0 else ("", months)
    return f"{sign}{months // 12}-{months % 12}"


def _format_day_time(micros: int) -> str:
    sign, rest = ("-", -micros) if micros < 0 else ("", micros)
    days, rest = divmod(rest, _DAY)
    seconds, micros = divmod(rest, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}000"


def _nested_texts(array: pa.Array, spark_type: SparkType, zone: str) -> list[str | None]:
    """Return the text of each value of an array, a map or a struct; None for NULL."""
    if spark_type.kind is TypeKind.STRUCT:
        members = [
            [f'"{name}":{text}' for text in _member_texts(values, child, zone)]
            for name, values, child in zip(
                spark_type.names, array.flatten(), spark_type.children, strict=True
            )
        ]
        rows = zip(*members, strict=True) if members else [()] * len(array)
        texts = ["{" + ",".join(row) + "}" for row in rows]
    else:
        offsets = array.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        if spark_type.kind is TypeKind.ARRAY:
            items = _member_texts(
                array.values.slice(first, last - first), spark_type.children[0], zone
            )
            opening, closing = "[", "]"
        else:
            pairs = [
                _member_texts(values.slice(first, last - first), child, zone)
                for values, child in zip(
                    (array.keys, array.items), spark_type.children, strict=True
                )
            ]
            items = [f"{key}:{value}" for key, value in zip(*pairs, strict=True)]
            opening, closing = "{", "}"
        texts = [
            f"{opening}{','.join(items[start - first : end - first])}{closing}"
            for start, end in pairwise(offsets)
        ]
    valid = array.is_valid().to_pylist()
    return [text if is_valid else None for text, is_valid in zip(texts, valid, strict=True)]


def _member_texts(array: pa.Array, spark_type: SparkType, zone: str) -> list[str]:
    if spark_type.kind in _NESTED:
        texts = _nested_texts(array, spark_type, zone)
    elif spark_type.kind in {TypeKind.FLOAT, TypeKind.DOUBLE}:
        # Arrow writes the shortest digits that name the same number.
        shortest = array.cast(pa.string()).to_pylist()
        texts = [None if text is None else _format_double(float(text)) for text in shortest]
    else:
        texts = encode_hive_text(array, spark_type, zone).to_pylist()
    quote = '"' if spark_type.kind is TypeKind.STRING else ""
    return ["null" if text is None else f"{quote}{text}{quote}" for text in texts]


def _format_double(value: float) -> str:
    """Return a number in the form of Java, for example `1.0E10` or `0.001`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    first, *others = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(others)}"


_ENCODERS: dict[TypeKind, Callable[[pa.Array], pa.Array]] = {
    TypeKind.TIMESTAMP_NTZ: lambda array: _trim(encode_text(array, _NTZ)),
    TypeKind.YEAR_MONTH: lambda array: _map(array, _format_year_month),
    TypeKind.DAY_TIME: lambda array: _map(array.view(pa.int64()), _format_day_time),
    TypeKind.BINARY: lambda array: _map(array, lambda value: value.decode(errors="replace")),
}
