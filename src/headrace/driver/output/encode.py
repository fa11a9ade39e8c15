"""The projection that brings columns into a form that Arrow holds.

Needed for year-month intervals (pyarrow cannot read them), calendar intervals (Arrow's nanoseconds
overflow) and structs whose field names repeat (Spark's Arrow writers refuse them). Any other column
passes as it is.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.errors import FormatCannotHold
from headrace.results.schema import Schema, SparkType, TypeKind


def encode_frame(frame: DataFrame, schema: Schema) -> DataFrame:
    """The frame as it can be handed to Arrow: unchanged, where nothing stands in the way.

    Raises FormatCannotHold for the one mix that Spark has no cast for.
    """
    if not any(_needs(column.type) for column in schema.columns):
        return frame
    for column in schema.columns:
        if _needs(column.type) and _has_user_defined(column.type):
            raise FormatCannotHold(
                f"column {column.name!r} has a user-defined type beside intervals of months or"
                " repeated field names, and Spark cannot cast that: cast it to plain types"
            )
    named = frame.toDF(*positional_names(schema))
    return named.selectExpr(
        *[
            f"{_encoded(_base(f'`_{index}`', column.type), column.type, 0)} AS `_{index}`"
            if _needs(column.type)
            else f"`_{index}`"
            for index, column in enumerate(schema.columns)
        ]
    )


def positional_names(schema: Schema) -> list[str]:
    """The positional names of the columns."""
    return [f"_{index}" for index in range(len(schema.columns))]


def _needs(kind: SparkType) -> bool:
    return (
        kind.kind in {TypeKind.YEAR_MONTH, TypeKind.CALENDAR}
        or kind.repeats_names
        or any(_needs(child) for child in kind.children)
    )


def _has_user_defined(kind: SparkType) -> bool:
    return kind.user_defined or any(_has_user_defined(child) for child in kind.children)


def _base(expression: str, kind: SparkType) -> str:
    """The value with fields named by position: they can then be told apart. Casts go by place."""
    if not kind.contains(TypeKind.STRUCT):
        return expression
    return f"CAST({expression} AS {_positional(kind)})"


def _positional(kind: SparkType) -> str:
    match kind.kind:
        case TypeKind.ARRAY:
            return f"array<{_positional(kind.children[0])}>"
        case TypeKind.MAP:
            key, value = kind.children
            return f"map<{_positional(key)},{_positional(value)}>"
        case TypeKind.STRUCT:
            fields = (f"_{at}:{_positional(child)}" for at, child in enumerate(kind.children))
            return f"struct<{','.join(fields)}>"
    return kind.sql


def _encoded(expression: str, kind: SparkType, depth: int) -> str:
    if not _needs(kind):
        return expression
    item = f"x{depth}"
    match kind.kind:
        case TypeKind.YEAR_MONTH:
            return f"CAST(CAST({expression} AS INTERVAL MONTH) AS INT)"
        case TypeKind.CALENDAR:
            return _unless_null(expression, _parts_of_interval(expression))
        case TypeKind.ARRAY:
            inner = _encoded(item, kind.children[0], depth + 1)
            return f"transform({expression}, {item} -> {inner})"
        case TypeKind.MAP:
            # Laid out as a map is; building a map anew would look for repeated keys.
            key, value = kind.children
            inner = _struct(
                [
                    _encoded(f"{item}.key", key, depth + 1),
                    _encoded(f"{item}.value", value, depth + 1),
                ]
            )
            return f"transform(map_entries({expression}), {item} -> {inner})"
        case _:
            fields = [
                _encoded(f"{expression}.`_{at}`", child, depth)
                for at, child in enumerate(kind.children)
            ]
            return _unless_null(expression, _struct(fields))


def _unless_null(expression: str, value: str) -> str:
    return f"CASE WHEN {expression} IS NOT NULL THEN {value} END"


def _struct(fields: list[str]) -> str:
    pairs = ", ".join(f"'_{at}', {field}" for at, field in enumerate(fields))
    return f"named_struct({pairs})"


def _parts_of_interval(expression: str) -> str:
    """Months, days and microseconds, exactly: Spark divides the microseconds towards zero."""

    def part(unit: str) -> str:
        return f"extract({unit} FROM {expression})"

    return _struct(
        [
            f"CAST({part('YEARS')} * 12 + {part('MONTHS')} AS INT)",
            f"CAST({part('DAYS')} AS INT)",
            (
                f"CAST({part('HOURS')} AS BIGINT) * 3600000000L"
                f" + CAST({part('MINUTES')} AS BIGINT) * 60000000L"
                f" + CAST({part('SECONDS')} * 1000000 AS BIGINT)"
            ),
        ]
    )
