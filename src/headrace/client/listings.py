"""What catalogs hold: the statements that list it, and their rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

Json = dict[str, Any]
COLUMNS = {
    "catalog": "string",
    "schema": "string",
    "table": "string",
    "name": "string",
    "position": "int",
    "type": "string",
    "nullable": "boolean",
    "comment": "string",
}
"""Columns of a list of columns, with their Spark SQL types."""


def list_text(objects: str, catalog: str | None, **patterns: str | None) -> str:
    """Return the statement that lists objects.

    Args:
        objects: `SCHEMAS`, `TABLES` or `COLUMNS`.
        catalog: Name of a catalog; None: the current one.
        patterns: By word of the statement (`SCHEMA`, `TABLE`, `COLUMN`), the pattern of names.
    """
    parts = [f"LIST {objects}"]
    if catalog is not None:
        parts.append(f"IN CATALOG {quote_name(catalog)}")
    parts += [
        f"{word} LIKE {_quote_text(pattern)}"
        for word, pattern in patterns.items()
        if pattern is not None
    ]
    return " ".join(parts)


def escape_pattern(name: str) -> str:
    """Return the pattern that matches this name alone, whatever its case."""
    return re.sub(r"([\\%_])", r"\\\1", name)


def join_namespace(parts: Iterable[str]) -> str:
    """Return the name of a schema with these parts, as `LIST SCHEMAS` writes it."""
    return ".".join(quote_name(part) if "." in part or "`" in part else part for part in parts)


def quote_name(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def _quote_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def describe_columns(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return a row for each column, in the order of `COLUMNS`.

    Args:
        rows: Those of `LIST COLUMNS`: catalog, schema, table, and columns as Spark's JSON, or None
            for a table that Spark cannot read.
    """
    described: list[tuple[Any, ...]] = []
    for catalog, schema, table, fields in rows:
        listed = [] if fields is None else json.loads(fields)["fields"]
        for position, field in enumerate(listed, start=1):
            metadata = field.get("metadata", {})
            described.append(
                (
                    *(catalog, schema, table, field["name"]),
                    *(metadata.get("headrace.position", position), _column_type(field)),
                    *(field["nullable"], metadata.get("comment")),
                )
            )
    return described


_SQL_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",
}


def sql_type(kind: Any) -> str:
    """Return the Spark SQL type for the JSON of a type."""
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    match kind["type"]:
        case "array":
            return f"array<{sql_type(kind['elementType'])}>"
        case "map":
            return f"map<{sql_type(kind['keyType'])},{sql_type(kind['valueType'])}>"
        case "struct":
            fields = [
                f"{_field_name(each['name'])}:{sql_type(each['type'])}" for each in kind["fields"]
            ]
            return f"struct<{','.join(fields)}>"
        case "udt":
            return sql_type(kind["sqlType"])
    return str(kind["type"])


def _column_type(field: Json) -> str:
    """Return the type of a column. Spark has its collation and its length beside its type."""
    metadata = field.get("metadata", {})
    if text := metadata.get("__CHAR_VARCHAR_TYPE_STRING"):
        return str(text)
    kind = sql_type(field["type"])
    collation = metadata.get("__COLLATIONS", {}).get(field["name"])
    if kind == "string" and collation is not None:
        return f"string collate {collation.rpartition('.')[2]}"
    return kind


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else quote_name(name)
