"""Values of Python as the typed parameters of a statement, whose text is never changed."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from headrace.client.dbapi_errors import DataError, NotSupportedError, ProgrammingError

Json = dict[str, Any]
Parameters = Sequence[Any] | Mapping[str, Any]
"""The values of the markers `?`, in order, or of the markers `:name`."""
_MAX_LONG = 2**63 - 1
_MAX_DIGITS = 38


def encode_parameters(parameters: Parameters | None) -> list[Json]:
    """Return the field `parameters` of a submit.

    Raises:
        DataError: Spark has no value like it, for example an integer with more than 64 bits.
        NotSupportedError: Spark has no such type.
        ProgrammingError: The parameters are neither a sequence nor a mapping.
    """
    if parameters is None:
        return []
    if isinstance(parameters, Mapping):
        return [{"name": name, **encode_value(value)} for name, value in parameters.items()]
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise ProgrammingError(
            f"Parameters are a sequence (for ?) or a mapping (for :name), not"
            f" {type(parameters).__name__}.",
            code="invalid_parameters",
        )
    return [encode_value(value) for value in parameters]


def encode_value(value: Any) -> Json:
    """Return a value with its Spark SQL type. Raise as `encode_parameters`."""
    if value is None or isinstance(value, bool | str):
        return {"value": value}
    if isinstance(value, int):
        return {"value": _check_long(value)}
    if isinstance(value, float):
        finite = math.isfinite(value)
        return {"value": value} if finite else {"value": _infinite(value), "type": "DOUBLE"}
    for kind, encode in _ENCODERS.items():
        if isinstance(value, kind):
            return encode(value)
    if isinstance(value, list | tuple):
        return _encode_array(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return encode_value(value.item())  # a scalar of numpy
    raise NotSupportedError(
        f"A parameter cannot be a {type(value).__name__}.",
        code="parameter_type",
        hint="pass a str, int, float, bool, Decimal, date, time, datetime, timedelta, bytes, UUID,"
        " a list of these, or None",
    )


def _infinite(value: float) -> str:
    """Return the text that Spark casts to NaN or an infinity."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _check_long(value: int) -> int:
    if not -_MAX_LONG - 1 <= value <= _MAX_LONG:
        raise DataError(
            f"The integer {value} has more than 64 bits.",
            code="parameter_range",
            sqlstate="22003",
            hint="pass a decimal.Decimal, which has up to 38 digits",
        )
    return int(value)


def _encode_decimal(value: Decimal) -> Json:
    if not value.is_finite():
        raise DataError(
            f"The decimal {value} is no number.", code="parameter_range", sqlstate="22003"
        )
    _sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > _MAX_DIGITS:
        raise DataError(
            f"The decimal {value} has more than {_MAX_DIGITS} digits.",
            code="parameter_range",
            sqlstate="22003",
        )
    return {"value": f"{value:f}", "type": f"DECIMAL({precision},{scale})"}


def _encode_datetime(value: datetime) -> Json:
    is_local = value.utcoffset() is None
    return {"value": value.isoformat(" "), "type": "TIMESTAMP_NTZ" if is_local else "TIMESTAMP"}


def _encode_bytes(value: bytes | bytearray | memoryview) -> Json:
    return {"value": {"base64": base64.b64encode(value).decode()}, "type": "BINARY"}


def _encode_interval(value: timedelta) -> Json:
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    sign = "-" if micros < 0 else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return {"value": f"{sign}{days} {clock}.{rest:06}", "type": "INTERVAL DAY TO SECOND"}


_SCALAR_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING"}
"""Types of the elements of a list, by the class of their values in JSON."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def _encode_array(values: Sequence[Any]) -> Json:
    """Return an array, which may be nested, of the type of its elements that are not None.

    Without such an element it has no type: Spark casts it to that of any array.
    """
    kinds: list[set[str]] = []
    """By level, the types of the elements: `ARRAY` for a list."""

    def encode_list(values: Sequence[Any], level: int) -> list[Any]:
        if level == len(kinds):
            kinds.append(set())
        return [encode_element(value, level) for value in values]

    def encode_element(value: Any, level: int) -> Any:
        if isinstance(value, list | tuple):
            kinds[level].add("ARRAY")
            return encode_list(value, level + 1)
        element = encode_value(value)
        if isinstance(element["value"], dict):
            raise NotSupportedError(
                "A list cannot hold bytes.",
                code="parameter_type",
                hint="pass each value as a parameter of its own: array(?, ?)",
            )
        if value is not None:
            kinds[level].add(element.get("type") or _SCALAR_TYPES[type(element["value"])])
        return element["value"]

    array = encode_list(values, 0)
    last = [_common_type(level) for level in kinds][-1]
    if last is None:
        return {"value": array}
    return {"value": array, "type": "ARRAY<" * len(kinds) + last + ">" * len(kinds)}


def _common_type(kinds: set[str]) -> str | None:
    """Return the type of the elements of a list; None if they are None or there are none."""
    if kinds == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    decimals = [match for kind in kinds if (match := _DECIMAL.fullmatch(kind))]
    if len(decimals) == len(kinds) > 1:
        scale = max(int(match[2]) for match in decimals)
        precision = scale + max(int(match[1]) - int(match[2]) for match in decimals)
        if precision > _MAX_DIGITS:
            raise DataError(
                f"The decimals of a list need more than {_MAX_DIGITS} digits.",
                code="parameter_range",
                sqlstate="22003",
            )
        return f"DECIMAL({precision},{scale})"
    if len(kinds) > 1:
        raise NotSupportedError(
            f"The values of a list have several types: {', '.join(sorted(kinds))}.",
            code="parameter_type",
        )
    return next(iter(kinds), None)


_ENCODERS: dict[type, Callable[[Any], Json]] = {
    Decimal: _encode_decimal,
    datetime: _encode_datetime,
    date: lambda value: {"value": value.isoformat(), "type": "DATE"},
    time: lambda value: {"value": value.isoformat(), "type": "TIME(6)"},
    timedelta: _encode_interval,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    memoryview: _encode_bytes,
    UUID: lambda value: {"value": str(value)},
}
"""By the class of a value. A datetime is a date, too, so that it stands before it."""
