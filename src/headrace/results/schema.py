"""The Spark schema of a result, parsed from Spark's JSON, with every type as Spark SQL text.

The JSON has the form of `StructType.json()`: atomic types are strings, nested types are objects.
Collations are in the metadata of the nearest field under `__COLLATIONS`, keyed by the path of the
string within that field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from headrace.errors import FormatCannotHold, InvalidResult

_MAX_DEPTH = 60
"""Deepest nesting of types that the node parses."""


class TypeKind(StrEnum):
    """Kinds of Spark types, without parameters. The value is the SQL name of the atomic types."""

    VOID = "void"
    BOOLEAN = "boolean"
    BYTE = "tinyint"
    SHORT = "smallint"
    INTEGER = "int"
    LONG = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    DAY_TIME = "interval day to second"
    YEAR_MONTH = "interval year to month"
    CALENDAR = "interval"
    VARIANT = "variant"
    GEOMETRY = "geometry"
    GEOGRAPHY = "geography"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


_NAMES = {
    TypeKind.BYTE: "byte",
    TypeKind.SHORT: "short",
    TypeKind.INTEGER: "integer",
    TypeKind.LONG: "long",
    TypeKind.STRING: "string",
    TypeKind.ARRAY: "array",
    TypeKind.MAP: "map",
    TypeKind.STRUCT: "struct",
}
"""Spark's own names, where they differ from the text in SQL."""


@dataclass(frozen=True, slots=True)
class SparkType:
    """A Spark type with its parameters and child types."""

    kind: TypeKind
    sql: str
    """Spark SQL text, for example `decimal(10,2)` or `array<struct<a:int>>`."""
    children: tuple[SparkType, ...] = ()
    """The element of an array, the key and value of a map, or the fields of a struct."""
    names: tuple[str, ...] = ()
    """Field names of a struct."""
    precision: int = 0
    """Digits of a decimal."""
    scale: int = 0
    """Fractional digits of a decimal."""
    user_defined: bool = False
    """Whether the column has a user-defined type. The other fields describe its `sqlType`."""

    @property
    def name(self) -> str:
        """Name that Spark uses outside SQL, for example `integer`, or `array` for every array."""
        return _NAMES.get(self.kind, self.sql)

    def contains(self, *kinds: TypeKind) -> bool:
        """Return whether this type or a type nested in it is one of `kinds`."""
        return self.kind in kinds or any(child.contains(*kinds) for child in self.children)

    @property
    def has_duplicate_names(self) -> bool:
        """Whether two fields of the struct have the same name. Case is ignored."""
        return find_duplicate(self.names) is not None


@dataclass(frozen=True, slots=True)
class Column:
    """A top-level column."""

    name: str
    type: SparkType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a result, in order."""

    columns: tuple[Column, ...]
    spark: Mapping[str, Any] = field(hash=False, compare=False)
    """The schema as Spark's JSON."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def describe(self) -> list[dict[str, str]]:
        """Return names and SQL types in the form of the API: `[{"name": …, "type": …}, …]`."""
        return [{"name": column.name, "type": column.type.sql} for column in self.columns]


def find_duplicate(names: tuple[str, ...]) -> str | None:
    """Return the first name that repeats an earlier one, case ignored, or None."""
    seen: set[str] = set()
    for name in names:
        folded = name.casefold()
        if folded in seen:
            return name
        seen.add(folded)
    return None


def parse_schema(spark: Mapping[str, Any]) -> Schema:
    """Parse Spark's schema JSON.

    Raises FormatCannotHold if a column has an unknown type, and InvalidResult if the JSON does not
    have the form of a schema.
    """
    return Schema(tuple(_parse_column(item) for item in _objects(spark, "fields")), spark)


def _parse_column(item: Mapping[str, Any]) -> Column:
    name, nullable = _name(item), item.get("nullable")
    if not isinstance(nullable, bool):
        raise _invalid("nullable")
    try:
        return Column(name, _parse_field_type(item, 0), nullable)
    except _UnknownType as unknown:
        raise FormatCannotHold(
            f"Column {name!r} has the type {unknown.args[0]}, which results cannot hold."
            " Cast it to another type."
        ) from None


def _name(item: Mapping[str, Any]) -> str:
    name = item.get("name")
    if not isinstance(name, str):
        raise _invalid("name")
    return name


def _objects(item: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = item.get(key)
    if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
        raise _invalid(key)
    return values


def _object(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = item.get(key)
    if not isinstance(value, Mapping | None):
        raise _invalid(key)
    return value or {}


def _invalid(key: str) -> InvalidResult:
    return InvalidResult(f"The schema of the result is not valid at {key!r}.")


class _UnknownType(Exception):
    """The argument is the type as JSON text."""


_KINDS = {
    "null": TypeKind.VOID,
    "void": TypeKind.VOID,
    "boolean": TypeKind.BOOLEAN,
    "byte": TypeKind.BYTE,
    "short": TypeKind.SHORT,
    "integer": TypeKind.INTEGER,
    "long": TypeKind.LONG,
    "float": TypeKind.FLOAT,
    "double": TypeKind.DOUBLE,
    "string": TypeKind.STRING,
    "binary": TypeKind.BINARY,
    "date": TypeKind.DATE,
    "timestamp": TypeKind.TIMESTAMP,
    "timestamp_ltz": TypeKind.TIMESTAMP,
    "timestamp_ntz": TypeKind.TIMESTAMP_NTZ,
    "interval": TypeKind.CALENDAR,
    "variant": TypeKind.VARIANT,
}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(-?\d{1,2})\)")
_MAX_PRECISION = 38
_PATTERNS = {
    TypeKind.TIME: re.compile(r"time\(\d+\)"),
    TypeKind.STRING: re.compile(r"(?:var)?char\(\d+\)|string collate \S+", re.IGNORECASE),
    TypeKind.GEOMETRY: re.compile(r"geometry\(.+\)", re.IGNORECASE),
    TypeKind.GEOGRAPHY: re.compile(r"geography\(.+\)", re.IGNORECASE),
    TypeKind.YEAR_MONTH: re.compile(r"interval (?:year|month|year to month)"),
    TypeKind.DAY_TIME: re.compile(
        r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?"
    ),
}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _parse_field_type(item: Mapping[str, Any], depth: int) -> SparkType:
    collations = _object(_object(item, "metadata"), "__COLLATIONS")
    return _parse_type(item.get("type"), _name(item), collations, depth)


def _parse_type(item: Any, path: str, collations: Mapping[str, Any], depth: int) -> SparkType:
    if isinstance(item, str):
        return _parse_atomic_type(item, collations.get(path))
    if not isinstance(item, Mapping) or depth > _MAX_DEPTH:
        raise _invalid("type")
    inner = depth + 1
    match item.get("type"):
        case "array":
            element = _parse_type(item.get("elementType"), f"{path}.element", collations, inner)
            return SparkType(TypeKind.ARRAY, f"array<{element.sql}>", (element,))
        case "map":
            key = _parse_type(item.get("keyType"), f"{path}.key", collations, inner)
            value = _parse_type(item.get("valueType"), f"{path}.value", collations, inner)
            return SparkType(TypeKind.MAP, f"map<{key.sql},{value.sql}>", (key, value))
        case "struct":
            return _parse_struct(item, inner)
        case "udt":
            stored = _parse_type(item.get("sqlType"), path, collations, inner)
            return replace(stored, user_defined=True)
    raise _UnknownType(json.dumps(item))


def _parse_struct(item: Mapping[str, Any], depth: int) -> SparkType:
    parts = _objects(item, "fields")
    names = tuple(_name(part) for part in parts)
    children = tuple(_parse_field_type(part, depth) for part in parts)
    fields = ",".join(
        f"{_quote_name(name)}:{child.sql}" for name, child in zip(names, children, strict=True)
    )
    return SparkType(TypeKind.STRUCT, f"struct<{fields}>", children, names)


def _quote_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _parse_atomic_type(text: str, collation: Any) -> SparkType:
    if kind := _KINDS.get(text):
        if kind is TypeKind.STRING and isinstance(collation, str) and collation:
            # The JSON has "spark.UTF8_LCASE"; SQL names the collation without its provider.
            return SparkType(kind, f"string collate {collation.rpartition('.')[2]}")
        return SparkType(kind, kind.value)
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise _UnknownType(text)
        sql = f"decimal({precision},{scale})"
        return SparkType(TypeKind.DECIMAL, sql, precision=precision, scale=scale)
    return SparkType(_match_kind(text), text)


def _match_kind(text: str) -> TypeKind:
    """Return the kind of an atomic type with parameters. Raises _UnknownType."""
    for kind, pattern in _PATTERNS.items():
        if pattern.fullmatch(text):
            return kind
    raise _UnknownType(text)
