"""The Spark schema of a result, read from Spark's own JSON, with every type as Spark SQL text.

The JSON is that of `StructType.json()`: atomic types are strings, nested ones objects, collations
are kept in the metadata of the nearest field under `__COLLATIONS`, keyed by a path within it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from headrace.errors import FormatCannotHold


class TypeKind(StrEnum):
    """What a value is, whatever its parameters; the SQL name of the plain types."""

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


@dataclass(frozen=True, slots=True)
class SparkType:
    """A Spark type. Children: an array's element; a map's key and value; a struct's fields."""

    kind: TypeKind
    sql: str
    """As Spark SQL writes it, e.g. `decimal(10,2)`, `array<struct<a:int>>`."""
    children: tuple[SparkType, ...] = ()
    names: tuple[str, ...] = ()
    """Field names of a struct."""
    precision: int = 0
    scale: int = 0
    """Of a decimal."""
    user_defined: bool = False
    """A user-defined type: it is shown, and held, as the type that it is stored as."""

    def contains(self, *kinds: TypeKind) -> bool:
        """Whether this type is, or holds at any depth, one of `kinds`."""
        return self.kind in kinds or any(child.contains(*kinds) for child in self.children)

    @property
    def repeats_names(self) -> bool:
        """Whether a struct's field names repeat, also when only their case differs."""
        return repeated(self.names) is not None


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
    """Spark's own JSON of it."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def described(self) -> list[dict[str, str]]:
        """The form that the API shows: `[{"name": …, "type": …}, …]`."""
        return [{"name": column.name, "type": column.type.sql} for column in self.columns]


def repeated(names: tuple[str, ...]) -> str | None:
    """The first name that another one before it equals but for case, or None."""
    seen: set[str] = set()
    for name in names:
        folded = name.casefold()
        if folded in seen:
            return name
        seen.add(folded)
    return None


def parse_schema(spark: Mapping[str, Any]) -> Schema:
    """The columns of Spark's schema JSON. Raises FormatCannotHold on a type unknown here."""
    return Schema(tuple(_column(item) for item in spark["fields"]), spark)


def _column(item: Mapping[str, Any]) -> Column:
    try:
        return Column(item["name"], _field_type(item), item["nullable"])
    except _UnknownType as unknown:
        raise FormatCannotHold(
            f"column {item['name']!r} has the type {unknown.args[0]}, which no result can hold"
        ) from None


class _UnknownType(Exception):
    pass


_NAMED = {
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
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
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


def _field_type(item: Mapping[str, Any]) -> SparkType:
    collations = (item.get("metadata") or {}).get("__COLLATIONS") or {}
    return _type(item["type"], item["name"], collations)


def _type(item: Any, path: str, collations: Mapping[str, str]) -> SparkType:
    if isinstance(item, str):
        return _atomic(item, collations.get(path))
    match item["type"]:
        case "array":
            element = _type(item["elementType"], f"{path}.element", collations)
            return SparkType(TypeKind.ARRAY, f"array<{element.sql}>", (element,))
        case "map":
            key = _type(item["keyType"], f"{path}.key", collations)
            value = _type(item["valueType"], f"{path}.value", collations)
            return SparkType(TypeKind.MAP, f"map<{key.sql},{value.sql}>", (key, value))
        case "struct":
            return _struct(item)
        case "udt":
            return replace(_type(item["sqlType"], path, collations), user_defined=True)
    raise _UnknownType(json.dumps(item))


def _struct(item: Mapping[str, Any]) -> SparkType:
    names = tuple(part["name"] for part in item["fields"])
    children = tuple(_field_type(part) for part in item["fields"])
    inner = ",".join(
        f"{_quoted(name)}:{child.sql}" for name, child in zip(names, children, strict=True)
    )
    return SparkType(TypeKind.STRUCT, f"struct<{inner}>", children, names)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _atomic(text: str, collation: str | None) -> SparkType:
    if kind := _NAMED.get(text):
        if kind is TypeKind.STRING and collation:
            # "spark.UTF8_LCASE": the provider is no part of the SQL name.
            return SparkType(kind, f"string collate {collation.rpartition('.')[2]}")
        return SparkType(kind, kind.value)
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        sql = f"decimal({precision},{scale})"
        return SparkType(TypeKind.DECIMAL, sql, precision=precision, scale=scale)
    return SparkType(_parameterised(text), text)


def _parameterised(text: str) -> TypeKind:
    for kind, pattern in _PATTERNS.items():
        if pattern.fullmatch(text):
            return kind
    raise _UnknownType(text)
