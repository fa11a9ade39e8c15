"""A projection that converts columns which Arrow cannot represent.

- Year-month intervals become numbers of months: pyarrow cannot read Arrow's type.
- Calendar intervals become structs: the nanoseconds of Arrow's type overflow.
- Structs with duplicate field names get positional names: Spark's Arrow writers refuse duplicates.

Other columns stay as they are.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.errors import FormatCannotHold
from headrace.results.layout import make_positional_names
from headrace.results.schema import Schema, SparkType, TypeKind


def encode_frame(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the DataFrame with its columns converted, or the same DataFrame if none needs it.

    Raises FormatCannotHold for a column that mixes a user-defined type with types that need a
    conversion, because Spark has no cast for user-defined types.
    """
    if not any(_needs_encoding(column.type) for column in schema.columns):
        return frame
    for column in schema.columns:
        if _needs_encoding(column.type) and _contains_user_defined(column.type):
            raise FormatCannotHold(
                f"Column {column.name!r} combines a user-defined type with intervals of months or"
                " duplicate field names, which Spark cannot cast. Cast the column to built-in types"
                " without duplicate field names."
            )
    names = make_positional_names(len(schema.columns))
    return frame.toDF(*names).selectExpr(
        *[
            _encode_column(f"`{name}`", column.type)
            for name, column in zip(names, schema.columns, strict=True)
        ]
    )


def _encode_column(name: str, spark_type: SparkType) -> str:
    if not _needs_encoding(spark_type):
        return name
    return f"{_encode(_cast_to_positional_fields(name, spark_type), spark_type, 0)} AS {name}"


def _needs_encoding(spark_type: SparkType) -> bool:
    return (
        spark_type.kind in {TypeKind.YEAR_MONTH, TypeKind.CALENDAR}
        or spark_type.has_duplicate_names
        or any(_needs_encoding(child) for child in spark_type.children)
    )


def _contains_user_defined(spark_type: SparkType) -> bool:
    return spark_type.user_defined or any(map(_contains_user_defined, spark_type.children))


def _cast_to_positional_fields(expression: str, spark_type: SparkType) -> str:
    """Name struct fields by position, so that expressions can refer to duplicates.

    Spark casts structs by position, not by name.
    """
    if not spark_type.contains(TypeKind.STRUCT):
        return expression
    return f"CAST({expression} AS {_positional_sql(spark_type)})"


def _positional_sql(spark_type: SparkType) -> str:
    """Return the SQL text of a type with fields named by position."""
    match spark_type.kind:
        case TypeKind.ARRAY:
            return f"array<{_positional_sql(spark_type.children[0])}>"
        case TypeKind.MAP:
            key, value = spark_type.children
            return f"map<{_positional_sql(key)},{_positional_sql(value)}>"
        case TypeKind.STRUCT:
            children = enumerate(spark_type.children)
            fields = (f"_{index}:{_positional_sql(child)}" for index, child in children)
            return f"struct<{','.join(fields)}>"
    return spark_type.sql


def _encode(expression: str, spark_type: SparkType, depth: int) -> str:
    """Return the SQL expression that converts a value.

    `depth` is the number of enclosing lambda functions: it makes the names of their arguments
    unique.
    """
    if not _needs_encoding(spark_type):
        return expression
    item = f"x{depth}"
    match spark_type.kind:
        case TypeKind.YEAR_MONTH:
            return f"CAST(CAST({expression} AS INTERVAL MONTH) AS INT)"
        case TypeKind.CALENDAR:
            return _unless_null(expression, _split_interval(expression))
        case TypeKind.ARRAY:
            element = _encode(item, spark_type.children[0], depth + 1)
            return f"transform({expression}, {item} -> {element})"
        case TypeKind.MAP:
            # The entries have the Arrow layout of a map; map_from_entries would check the keys.
            key, value = spark_type.children
            entry = _named_struct(
                [
                    _encode(f"{item}.key", key, depth + 1),
                    _encode(f"{item}.value", value, depth + 1),
                ]
            )
            return f"transform(map_entries({expression}), {item} -> {entry})"
        case _:
            fields = [
                _encode(f"{expression}.`_{index}`", child, depth)
                for index, child in enumerate(spark_type.children)
            ]
            return _unless_null(expression, _named_struct(fields))


def _unless_null(expression: str, value: str) -> str:
    return f"CASE WHEN {expression} IS NOT NULL THEN {value} END"


def _named_struct(fields: list[str]) -> str:
    pairs = ", ".join(f"'_{index}', {field}" for index, field in enumerate(fields))
    return f"named_struct({pairs})"


def _split_interval(expression: str) -> str:
    """Return the struct of the months, days and microseconds of a calendar interval.

    The parts add up exactly, because `extract` divides the microseconds towards zero.
    """

    def extract(unit: str) -> str:
        return f"extract({unit} FROM {expression})"

    return _named_struct(
        [
            f"CAST({extract('YEARS')} * 12 + {extract('MONTHS')} AS INT)",
            f"CAST({extract('DAYS')} AS INT)",
            (
                f"CAST({extract('HOURS')} AS BIGINT) * 3600000000L"
                f" + CAST({extract('MINUTES')} AS BIGINT) * 60000000L"
                f" + CAST({extract('SECONDS')} * 1000000 AS BIGINT)"
            ),
        ]
    )
