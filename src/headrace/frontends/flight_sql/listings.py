"""The calls for metadata: catalogs, schemas and tables, with the columns of the specification."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from headrace import __version__
from headrace.frontends.flight_sql.messages import FlightCommand
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


def _schema_of_tables(command: FlightCommand) -> pa.Schema:
    if not command.flag(5):
        return _TABLES
    return _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))


_INFO_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
_INFO = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", _INFO_VALUE, nullable=False),
    ]
)
_INFO_VALUES: dict[int, str | bool] = {
    0: "Headrace",
    1: __version__,
    2: pa.__version__,
    3: False,  # not read-only
    4: True,  # SQL
    5: False,  # no Substrait
    504: "`",
}
"""What the server says about itself, by the ids of `SqlInfo`."""
_KEYS = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("column_name", pa.string(), nullable=False),
        pa.field("key_name", pa.string()),
        pa.field("key_sequence", pa.int32(), nullable=False),
    ]
)


def _describe_server(ids: list[int]) -> pa.Table:
    found = {key: value for key, value in _INFO_VALUES.items() if not ids or key in ids}
    kinds = [int(isinstance(value, bool)) for value in found.values()]
    texts = [value for value in found.values() if not isinstance(value, bool)]
    flags = [value for value in found.values() if isinstance(value, bool)]
    offsets = [kinds[:at].count(kind) for at, kind in enumerate(kinds)]
    children = [pa.array([], field.type) for field in _INFO_VALUE]
    children[:2] = [pa.array(texts, pa.string()), pa.array(flags, pa.bool_())]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        children,
        [field.name for field in _INFO_VALUE],
    )
    return pa.Table.from_arrays([pa.array(list(found), pa.uint32()), values], schema=_INFO)


def _fixed(schema: pa.Schema, _command: FlightCommand) -> pa.Schema:
    return schema


LISTINGS: dict[str, Callable[[FlightCommand], pa.Schema]] = {
    "CommandGetCatalogs": partial(_fixed, _CATALOGS),
    "CommandGetDbSchemas": partial(_fixed, _SCHEMAS),
    "CommandGetTables": _schema_of_tables,
    "CommandGetTableTypes": partial(_fixed, _TYPES),
    "CommandGetSqlInfo": partial(_fixed, _INFO),
    "CommandGetPrimaryKeys": partial(_fixed, _KEYS),
}
"""Commands for metadata, and the schemas of their results."""


def list_objects(command: FlightCommand, run: Run) -> pa.Table:
    """Return the rows of a command for metadata."""
    schema = LISTINGS[command.name](command)
    rows: list[tuple[Any, ...]]
    match command.name:
        case "CommandGetCatalogs":
            rows = sorted((str(next(iter(row.values()))),) for row in run("SHOW CATALOGS"))
        case "CommandGetDbSchemas":
            statement = ListObjects(ListedObjects.SCHEMAS, command.text(1) or None, command.text(2))
            rows = sorted((row["catalog"], row["schema"]) for row in run(statement.to_sql()))
        case "CommandGetTables":
            rows = _list_tables(command, run)
        case "CommandGetTableTypes":
            rows = [(name,) for name in _TABLE_TYPES]
        case "CommandGetSqlInfo":
            return _describe_server(command.numbers(1))
        case _:
            rows = []  # Spark has no keys
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _list_tables(command: FlightCommand, run: Run) -> list[tuple[Any, ...]]:
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


def _patterns(command: FlightCommand) -> tuple[str | None, str | None, str | None]:
    return command.text(1) or None, command.text(2), command.text(3)


def _name(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["catalog"], row["schema"], row["name"]


def _write_schema(columns: str) -> bytes:
    spark = json.loads(columns)
    schema = build_client_schema(parse_schema(spark), columns)
    content: bytes = schema.serialize().to_pybytes()
    return content
