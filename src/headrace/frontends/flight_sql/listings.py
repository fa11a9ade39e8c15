"""The calls for metadata: catalogs, schemas and tables, with the columns of the specification."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.frontends.flight_sql.messages import Message
from headrace.grammar.metadata import ListedObjects, ListObjects
from headrace.results.layout import build_client_schema
from headrace.results.schema import parse_schema

_TABLE_TYPES = ("TABLE", "VIEW")
Run = Callable[[str], list[dict[str, Any]]]
"""Runs a statement, and returns its rows."""


def _columns(names: str) -> pa.Schema:
    """Return a schema of texts; `?` behind a name: it may be null."""
    return pa.schema(
        [
            pa.field(name.rstrip("?"), pa.string(), nullable=name.endswith("?"))
            for name in names.split()
        ]
    )


_CATALOGS = _columns("catalog_name")
_SCHEMAS = _columns("catalog_name? db_schema_name")
_TABLES = _columns("catalog_name? db_schema_name? table_name table_type")
_TYPES = _columns("table_type")


def _schema_of_tables(command: Message) -> pa.Schema:
    if not command.flag(5):
        return _TABLES
    return _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))


def _fixed(schema: pa.Schema, _command: Message) -> pa.Schema:
    return schema


LISTINGS: dict[str, Callable[[Message], pa.Schema]] = {
    "CommandGetCatalogs": partial(_fixed, _CATALOGS),
    "CommandGetDbSchemas": partial(_fixed, _SCHEMAS),
    "CommandGetTables": _schema_of_tables,
    "CommandGetTableTypes": partial(_fixed, _TYPES),
}
"""Commands for metadata, and the schemas of their results."""


def list_objects(command: Message, run: Run) -> pa.Table:
    """Return the rows of a command for metadata."""
    schema = LISTINGS[command.name](command)
    match command.name:
        case "CommandGetCatalogs":
            rows = sorted((str(next(iter(row.values()))),) for row in run("SHOW CATALOGS"))
        case "CommandGetDbSchemas":
            statement = ListObjects(ListedObjects.SCHEMAS, command.text(1) or None, command.text(2))
            rows = sorted((row["catalog"], row["schema"]) for row in run(statement.to_sql()))
        case "CommandGetTables":
            rows = _list_tables(command, run)
        case _:
            rows = [(name,) for name in _TABLE_TYPES]
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _list_tables(command: Message, run: Run) -> list[tuple[Any, ...]]:
    has_columns = command.flag(5)
    objects = ListedObjects.COLUMNS if has_columns else ListedObjects.TABLES
    statement = ListObjects(objects, command.text(1) or None, command.text(2), command.text(3))
    types = set(command.texts(4)) or set(_TABLE_TYPES)
    kinds: dict[tuple[str, str, str], str] = {}
    found = run(statement.to_sql())
    if has_columns:
        tables = ListObjects(ListedObjects.TABLES, *_patterns(command))
        kinds = {_name(row): row["type"] for row in run(tables.to_sql())}
    rows: list[tuple[Any, ...]] = []
    for row in sorted(found, key=_name):
        kind = kinds.get(_name(row)) if has_columns else row["type"]
        if kind not in types:
            continue
        schema = [_write_schema(row["columns"])] if has_columns else []
        rows.append((*_name(row), kind, *schema))
    return rows


def _patterns(command: Message) -> tuple[str | None, str | None, str | None]:
    return command.text(1) or None, command.text(2), command.text(3)


def _name(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["catalog"], row["schema"], row["name"]


def _write_schema(columns: str) -> bytes:
    spark = json.loads(columns)
    schema = build_client_schema(parse_schema(spark), columns)
    content: bytes = schema.serialize().to_pybytes()
    return content
