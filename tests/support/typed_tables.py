"""Tables with columns of all types, for tests of properties."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.support.memory_rows import make_schema

from headrace.model.instants import format_day_time, format_year_month

_MICROSECOND = timedelta(microseconds=1)
_LONGEST = timedelta(days=100_000_000)


def array_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def struct_of(**kinds: Any) -> dict[str, Any]:
    return dict(make_schema(kinds).spark)


@dataclass(frozen=True)
class TypeStrategy:
    """A Spark type, a strategy for its values in Arrow, and the JSON value of each."""

    kind: Any
    values: st.SearchStrategy[Any]
    to_json: Any


def _float_to_json(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _shortest(value: float) -> float:
    """Return the double with the fewest digits that stand for a 32-bit value."""
    return float(str(np.float32(value)))


def _decimal_to_json(value: Decimal) -> str:
    # The default context has fewer than 30 digits.
    exact = value.quantize(Decimal("1e-20"), context=Context(prec=30))
    return format(exact if value else Decimal("0E-20"), "f")


PLAIN_TYPES = [
    TypeStrategy("integer", st.integers(-(2**31), 2**31 - 1), lambda value: value),
    TypeStrategy("long", st.integers(-(2**63), 2**63 - 1), str),
    TypeStrategy("boolean", st.booleans(), lambda value: value),
    TypeStrategy("double", st.floats(), _float_to_json),
    TypeStrategy("string", st.text(), lambda value: value),
    TypeStrategy("binary", st.binary(), lambda value: base64.b64encode(value).decode()),
    TypeStrategy("date", st.dates(), date.isoformat),
    TypeStrategy(
        "timestamp",
        st.datetimes(timezones=st.just(UTC)),
        lambda value: value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z",
    ),
    TypeStrategy(
        "timestamp_ntz",
        st.datetimes(),
        lambda value: datetime.isoformat(value, timespec="microseconds"),
    ),
    TypeStrategy("byte", st.integers(-128, 127), lambda value: value),
    TypeStrategy("short", st.integers(-(2**15), 2**15 - 1), lambda value: value),
    TypeStrategy("float", st.floats(width=32), lambda value: _float_to_json(_shortest(value))),
    TypeStrategy("time(6)", st.times(), lambda value: value.isoformat("microseconds")),
    TypeStrategy(
        "interval day to second",
        st.timedeltas(-_LONGEST, _LONGEST),
        lambda value: format_day_time(value // _MICROSECOND, "interval day to second"),
    ),
    TypeStrategy(
        "interval year to month",
        st.integers(-(2**31) + 1, 2**31 - 1),
        lambda value: format_year_month(value, "interval year to month"),
    ),
    TypeStrategy(
        "decimal(30,20)",
        st.decimals(-(10**9), 10**9, places=20),
        _decimal_to_json,
    ),
]


def nullable(to_json: Any) -> Any:
    return lambda value: None if value is None else to_json(value)


def _list_of(inner: TypeStrategy) -> TypeStrategy:
    to_json = nullable(inner.to_json)
    values = st.lists(st.none() | inner.values, max_size=3)
    return TypeStrategy(
        array_of(inner.kind), values, lambda value: [to_json(item) for item in value]
    )


def _map_of(inner: TypeStrategy) -> TypeStrategy:
    to_json = nullable(inner.to_json)
    values = st.lists(
        st.tuples(st.text(max_size=3), st.none() | inner.values),
        max_size=3,
        unique_by=lambda pair: pair[0],
    )
    return TypeStrategy(
        map_of("string", inner.kind),
        values,
        lambda value: [[key, to_json(item)] for key, item in value],
    )


def _struct_of(inner: TypeStrategy) -> TypeStrategy:
    to_json = nullable(inner.to_json)
    return TypeStrategy(
        struct_of(**{'a "b"': inner.kind, "n": "integer"}),
        st.fixed_dictionaries({"_0": st.none() | inner.values, "_1": st.integers(0, 9)}),
        lambda value: {'a "b"': to_json(value["_0"]), "n": value["_1"]},
    )


def nested_types(plain: list[TypeStrategy]) -> st.SearchStrategy[TypeStrategy]:
    """Return these types, and lists, maps and structs of them."""
    return st.recursive(
        st.sampled_from(plain),
        lambda inner: inner.map(_list_of) | inner.map(_map_of) | inner.map(_struct_of),
        max_leaves=3,
    )


TYPES = nested_types(PLAIN_TYPES)


TypedTable = tuple[list[TypeStrategy], list[list[Any]]]
"""The types of columns, and the values of each column in Arrow."""


@st.composite
def typed_tables(draw: st.DrawFn, types: st.SearchStrategy[TypeStrategy] = TYPES) -> TypedTable:
    """Return a table with values of all types, or of the given ones."""
    cases = draw(st.lists(types, min_size=1, max_size=3))
    count = draw(st.integers(0, 6))
    columns = [
        draw(st.lists(st.none() | case.values, min_size=count, max_size=count)) for case in cases
    ]
    return cases, columns
