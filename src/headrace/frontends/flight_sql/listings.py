"""The calls for metadata, with the columns that Flight SQL defines."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pyarrow as pa

from headrace.frontends.flight_sql import sql_info
from headrace.frontends.flight_sql.messages import FlightCommand
from headrace.grammar.metadata import ListedObjects, ListObjects, matches
from headrace.results.layout import build_client_schema
from headrace.results.schema import SparkType, TypeKind, parse_schema

_TABLE_TYPES = ("TABLE", "VIEW")
_METADATA = "ARROW:FLIGHT:SQL:"
Row = dict[str, Any]
Run = Callable[[str], Awaitable[list[Row]]]
"""Runs a statement, and returns its rows."""

_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "int": pa.int32(),
    "flag": pa.bool_(),
    "byte": pa.uint8(),
    "bytes": pa.binary(),
    "texts": pa.list_(pa.field("item", pa.string(), nullable=False)),
}


def _columns(text: str) -> pa.Schema:
    """Return a schema of columns `name:type`; `?` behind a type: it may be null."""
    fields = []
    for column in text.split():
        name, _, kind = column.partition(":")
        fields.append(pa.field(name, _TYPES[kind.rstrip("?")], nullable=kind.endswith("?")))
    return pa.schema(fields)


_TABLES = "catalog_name:text? db_schema_name:text? table_name:text table_type:text"
_REFERENCES = _columns(
    "pk_catalog_name:text? pk_db_schema_name:text? pk_table_name:text pk_column_name:text"
    " fk_catalog_name:text? fk_db_schema_name:text? fk_table_name:text fk_column_name:text"
    " key_sequence:int fk_key_name:text? pk_key_name:text? update_rule:byte delete_rule:byte"
)
_SCHEMAS: dict[str, pa.Schema] = {
    "CommandGetCatalogs": _columns("catalog_name:text"),
    "CommandGetDbSchemas": _columns("catalog_name:text? db_schema_name:text"),
    "CommandGetTables": _columns(_TABLES),
    "CommandGetTableTypes": _columns("table_type:text"),
    "CommandGetSqlInfo": sql_info.SCHEMA,
    "CommandGetPrimaryKeys": _columns(
        "catalog_name:text? db_schema_name:text? table_name:text column_name:text key_name:text?"
        " key_sequence:int"
    ),
    "CommandGetExportedKeys": _REFERENCES,
    "CommandGetImportedKeys": _REFERENCES,
    "CommandGetCrossReference": _REFERENCES,
    "CommandGetXdbcTypeInfo": _columns(
        "type_name:text data_type:int column_size:int? literal_prefix:text? literal_suffix:text?"
        " create_params:texts? nullable:int case_sensitive:flag searchable:int"
        " unsigned_attribute:flag? fixed_prec_scale:flag auto_increment:flag? local_type_name:text?"
        " minimum_scale:int? maximum_scale:int? sql_data_type:int datetime_subcode:int?"
        " num_prec_radix:int? interval_precision:int?"
    ),
}
LISTINGS = frozenset(_SCHEMAS)
"""Commands for metadata."""


def schema_of(command: FlightCommand) -> pa.Schema:
    """Return the schema of the rows of a command for metadata."""
    if command.name == "CommandGetTables" and command.flag(5):
        return _columns(f"{_TABLES} table_schema:bytes")
    return _SCHEMAS[command.name]


async def list_objects(command: FlightCommand, run: Run) -> pa.Table:
    """Return the rows of a command for metadata."""
    schema = schema_of(command)
    rows: list[tuple[Any, ...]]
    match command.name:
        case "CommandGetCatalogs":
            rows = [(name,) for name in await _list_catalogs(run)]
        case "CommandGetDbSchemas":
            rows = [
                (row["catalog"], row["schema"])
                for catalog in await _chosen_catalogs(command, run)
                for row in await run(
                    ListObjects(ListedObjects.SCHEMAS, catalog, _pattern(command, 2)).to_sql()
                )
            ]
            rows.sort()
        case "CommandGetTables":
            rows = await _list_tables(command, run)
        case "CommandGetTableTypes":
            rows = [(name,) for name in _TABLE_TYPES]
        case "CommandGetSqlInfo":
            return sql_info.describe_server(command.numbers(1))
        case "CommandGetXdbcTypeInfo":
            wanted = command.numbers(1)
            rows = [row for row in _describe_types() if not wanted or row[1] in wanted]
        case _:
            rows = []  # Spark has no keys
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _pattern(command: FlightCommand, number: int) -> str | None:
    """Return a pattern of a command; None: all names, for which some clients send no text."""
    return command.text(number) or None


async def _list_catalogs(run: Run) -> list[str]:
    return sorted(str(next(iter(row.values()))) for row in await run("SHOW CATALOGS"))


async def _chosen_catalogs(command: FlightCommand, run: Run) -> list[str]:
    """Return the catalog that a command names, or all."""
    catalog = command.text(1)
    return [catalog] if catalog else await _list_catalogs(run)


async def _list_tables(command: FlightCommand, run: Run) -> list[tuple[Any, ...]]:
    has_columns = command.flag(5)
    wanted = set(command.texts(4)) or set(_TABLE_TYPES)
    rows: list[tuple[Any, ...]] = []
    patterns = (_pattern(command, 2), _pattern(command, 3))
    for catalog in await _chosen_catalogs(command, run):
        tables = ListObjects(ListedObjects.TABLES, catalog, *patterns)
        listed = [
            row
            for row in await run(tables.to_sql())
            # Temporary views belong to no schema.
            if row["type"] in wanted and (row["schema"] or matches(patterns[0], ""))
        ]
        if not has_columns:
            rows += [(*_name(row), row["type"]) for row in listed]
        elif listed:
            columns = ListObjects(ListedObjects.COLUMNS, catalog, *patterns)
            schemas = {_name(row): row for row in await run(columns.to_sql())}
            rows += [
                (*_name(row), row["type"], _write_schema(schemas[_name(row)]))
                for row in listed
                if _name(row) in schemas
            ]
    return sorted(rows)


def _name(row: Row) -> tuple[str, str, str]:
    return row["catalog"], row["schema"], row["name"]


def _write_schema(table: Row) -> bytes:
    # Spark cannot read each table that it lists.
    spark = json.loads(table["columns"] or '{"type": "struct", "fields": []}')
    names = {"CATALOG_NAME": "catalog", "SCHEMA_NAME": "schema", "TABLE_NAME": "name"}
    table_metadata = {key: str(table[column]) for key, column in names.items() if table[column]}
    content: bytes = describe_columns(spark, table_metadata).serialize().to_pybytes()
    return content


def describe_columns(spark: Mapping[str, Any], more: Mapping[str, str] | None = None) -> pa.Schema:
    """Return the schema for clients, with the metadata of Flight SQL in its fields.

    Args:
        spark: Spark's schema.
        more: Further metadata of each field.
    """
    schema = parse_schema(spark)
    built = build_client_schema(schema, json.dumps(spark))
    fields = []
    for field, column, described in zip(built, schema.columns, spark["fields"], strict=True):
        metadata = {**_describe_type(column.type), **(more or {})}
        comment = described.get("metadata", {}).get("comment")
        if isinstance(comment, str):
            metadata["REMARKS"] = comment
        known = dict(field.metadata or {})
        known |= {f"{_METADATA}{key}".encode(): text.encode() for key, text in metadata.items()}
        fields.append(field.with_metadata(known).with_nullable(column.nullable))
    return pa.schema(fields, metadata=built.metadata)


def _describe_type(type_: SparkType) -> dict[str, str]:
    kind = type_.kind
    described = {"TYPE_NAME": _type_name(kind), "IS_AUTO_INCREMENT": "0", "IS_SEARCHABLE": "1"}
    size = _SIZES.get(kind)
    if kind is TypeKind.DECIMAL:
        described |= {"PRECISION": str(type_.precision), "SCALE": str(type_.scale)}
    elif size is not None:
        described["PRECISION"] = str(size)
    return described


def _type_name(kind: TypeKind) -> str:
    return kind.value.upper()


_SIZES = {
    TypeKind.BOOLEAN: 1,
    TypeKind.BYTE: 3,
    TypeKind.SHORT: 5,
    TypeKind.INTEGER: 10,
    TypeKind.LONG: 19,
    TypeKind.FLOAT: 7,
    TypeKind.DOUBLE: 15,
    TypeKind.DECIMAL: 38,
    TypeKind.DATE: 10,
    TypeKind.TIME: 15,
    TypeKind.TIMESTAMP: 29,
    TypeKind.TIMESTAMP_NTZ: 29,
}
"""Digits of numbers, and characters of the others."""
_VARCHAR = 12
_XDBC_TYPES = {
    TypeKind.BOOLEAN: -7,
    TypeKind.BYTE: -6,
    TypeKind.SHORT: 5,
    TypeKind.INTEGER: 4,
    TypeKind.LONG: -5,
    TypeKind.FLOAT: 7,
    TypeKind.DOUBLE: 8,
    TypeKind.DECIMAL: 3,
    TypeKind.STRING: _VARCHAR,
    TypeKind.BINARY: -3,
    TypeKind.DATE: 91,
    TypeKind.TIME: 92,
    TypeKind.TIMESTAMP: 93,
    TypeKind.TIMESTAMP_NTZ: 93,
}
"""Types of ODBC and JDBC, by that of Spark. The others are shown as texts."""
_DATETIME, _DATETIME_CODES = 9, {91: 1, 92: 2, 93: 3}
_QUOTES = {
    TypeKind.STRING: ("'", "'"),
    TypeKind.BINARY: ("X'", "'"),
    TypeKind.DATE: ("DATE'", "'"),
    TypeKind.TIME: ("TIME'", "'"),
    TypeKind.TIMESTAMP: ("TIMESTAMP'", "'"),
    TypeKind.TIMESTAMP_NTZ: ("TIMESTAMP_NTZ'", "'"),
}
_NUMBERS = frozenset(
    {
        *(TypeKind.BYTE, TypeKind.SHORT, TypeKind.INTEGER, TypeKind.LONG),
        *(TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL),
    }
)
_NULLABLE, _SEARCHABLE = 1, 3


def _describe_types() -> list[tuple[Any, ...]]:
    """Return the rows of `GetXdbcTypeInfo`, sorted by type as the specification demands."""
    rows = []
    for kind in _SIZES.keys() | {TypeKind.STRING, TypeKind.BINARY}:
        code = _XDBC_TYPES[kind]
        is_number, prefix = kind in _NUMBERS, _QUOTES.get(kind, (None, None))
        is_decimal = kind is TypeKind.DECIMAL
        subcode = _DATETIME_CODES.get(code)
        rows.append(
            (
                *(_type_name(kind), code, _SIZES.get(kind), *prefix),
                ["precision", "scale"] if is_decimal else None,
                *(_NULLABLE, kind is TypeKind.STRING, _SEARCHABLE),
                *(False if is_number else None, False, False, _type_name(kind)),
                *((0, 38) if is_decimal else (0, 0) if is_number else (None, None)),
                _DATETIME if subcode is not None else code,
                *(subcode, 10 if is_number else None, None),
            )
        )
    return sorted(rows, key=lambda row: (row[1], row[0]))
