"""The calls for metadata: what JDBC's `DatabaseMetaData` asks a server of HiveServer2.

Each call runs a statement in the session of its client, or needs none. Its rows have the columns
that JDBC defines; whoever fetches them computes them from the result of the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa

from headrace.grammar.lexer import code_tokens
from headrace.grammar.metadata import POSITION, ListedObjects, ListObjects, matches
from headrace.grammar.parse import parse
from headrace.results.layout import build_stored_schema
from headrace.results.reader import Rows
from headrace.results.schema import Schema, SparkType, TypeKind, parse_schema

Row = Sequence[Any]
_TABLE_TYPES = ("TABLE", "VIEW")
_NO_TYPE = 1 << len(_TABLE_TYPES)
_FUNCTION_NO_TABLE = 1
_NULLABLE, _NOT_NULLABLE = 1, 0


class MetadataCall(IntEnum):
    """Calls for metadata. The numbers are in handles, which other nodes read."""

    CATALOGS = 1
    SCHEMAS = 2
    TABLES = 3
    TABLE_TYPES = 4
    COLUMNS = 5
    FUNCTIONS = 6
    TYPES = 7
    PRIMARY_KEYS = 8
    CROSS_REFERENCE = 9
    # No calls: statements whose rows have Hive's columns, for clients that have asked for them.
    HIVE_SHOW_SCHEMAS = 10
    HIVE_SHOW_TABLES = 11
    HIVE_SHOW_COLUMNS = 12


_OF_SCHEMAS = frozenset({MetadataCall.TABLES, MetadataCall.COLUMNS, MetadataCall.FUNCTIONS})
"""Calls for objects that belong to schemas, or to none."""
_NO_COLUMNS = '{"fields": []}'
"""Columns of a table that Spark cannot read."""


@dataclass(frozen=True)
class _Shape:
    """The columns of a listing, as `name type` with types of Spark."""

    columns: str
    rows: Callable[[Iterable[dict[str, Any]]], Iterable[Row]]
    """Computes the rows from those of the statement."""


def encode_types(names: Sequence[str] | None) -> int:
    """Return types of tables as bits of a number; 0: all."""
    if not names:
        return 0
    wanted = {name.upper() for name in names}
    bits = sum(1 << bit for bit, name in enumerate(_TABLE_TYPES) if name in wanted)
    return bits or _NO_TYPE


def find_hive_show(text: str) -> MetadataCall | None:
    """Return the listing with Hive's columns that stands for a statement; None if there is none."""
    words = tuple(token.word for token in islice(code_tokens(text), 2))
    return _HIVE_SHOWS.get(words)


def statement_for(listing: MetadataCall, request: Any) -> str | None:
    """Return the statement that a call runs; None if it needs none."""
    match listing:
        case MetadataCall.CATALOGS:
            return "SHOW CATALOGS"
        case MetadataCall.SCHEMAS:
            objects, name, column = ListedObjects.SCHEMAS, None, None
        case MetadataCall.TABLES:
            objects, name, column = ListedObjects.TABLES, request.tableName, None
        case MetadataCall.COLUMNS:
            objects, name, column = ListedObjects.COLUMNS, request.tableName, request.columnName
        case MetadataCall.FUNCTIONS:
            objects, name, column = ListedObjects.FUNCTIONS, request.functionName, None
        case _:
            return None
    patterns = map(_read_pattern, (request.schemaName, name, column))
    return ListObjects(objects, request.catalogName or None, *patterns).to_sql()


def _read_pattern(pattern: str | None) -> str | None:
    """Return the pattern that a client of Hive means; None: all names.

    Beside the wildcards of JDBC, such clients send those of Hive, `*` and `.*`.
    """
    parts = re.findall(r"\\.|\.\*|.", pattern or "", re.DOTALL)
    text = "".join("%" if part in {"*", ".*"} else part for part in parts)
    return text if text.strip("%") else None


@cache
def schema_of(listing: MetadataCall) -> Schema:
    """Return the columns of a listing."""
    fields = [column.split() for column in _SHAPES[listing].columns.split(",")]
    return parse_schema(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in fields
            ],
        }
    )


def read_rows(listing: MetadataCall, found: Rows | None, text: str, types: int) -> pa.RecordBatch:
    """Return the rows of a listing, in the stored layout.

    Args:
        found: Rows of its statement; None if it has none.
        text: The statement, which names what the client has asked for.
        types: The types of tables that it has asked for, as in `encode_types`.
    """
    stored = build_stored_schema(schema_of(listing))
    batches = [] if found is None else found.batches()
    names = [] if found is None else found.schema.names
    rows = [
        dict(zip(names, row.values(), strict=True))
        for batch in batches
        for row in batch.to_pylist()
    ]
    if listing in _OF_SCHEMAS:
        # Clients ask for each schema. What belongs to none would be in the answer for each.
        command = parse(text).command
        assert isinstance(command, ListObjects)
        rows = [row for row in rows if row["schema"] or matches(command.schema, "")]
    computed: list[Row] = list(_SHAPES[listing].rows(rows))
    if listing is MetadataCall.TABLES and types:
        wanted = {name for bit, name in enumerate(_TABLE_TYPES) if types & 1 << bit}
        computed = [row for row in computed if row[3] in wanted]
    columns = list(zip(*computed, strict=True)) or [()] * len(stored)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, stored, strict=True)]
    return pa.record_batch(arrays, schema=stored)


def _first_column(rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    return [list(row.values())[:1] for row in rows]


def _schemas(rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    return sorted((row["schema"], row["catalog"]) for row in rows)


def _tables(rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    found = [
        (row["catalog"], row["schema"], row["name"], row["type"], row["comment"] or "")
        for row in rows
    ]
    return [(*row, None, None, None, None, None) for row in sorted(found, key=_by_type)]


def _by_type(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[3], *row[:3]


def _columns(rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    for row in sorted(rows, key=lambda row: (row["catalog"], row["schema"], row["name"])):
        fields = json.loads(row["columns"] or _NO_COLUMNS)["fields"]
        described = parse_schema({"type": "struct", "fields": fields}).columns
        for position, (column, field) in enumerate(zip(described, fields, strict=True), 1):
            metadata = field.get("metadata", {})
            comment = metadata.get("comment", "")
            yield (
                *(row["catalog"], row["schema"], row["name"], column.name),
                *(_jdbc_type(column.type), _type_name(column.type), _size(column.type), None),
                *(_digits(column.type), _radix(column.type)),
                *(_NULLABLE if column.nullable else _NOT_NULLABLE, comment, None, None, None, None),
                *(metadata.get(POSITION, position), "YES" if column.nullable else "NO"),
                *(None, None, None, None, "NO"),
            )


def _functions(rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    for row in sorted(rows, key=lambda row: (row["schema"], row["name"])):
        about = f"Usage: {row['name']}"
        specific = row["class"] or row["name"]
        yield row["catalog"], row["schema"], row["name"], about, _FUNCTION_NO_TABLE, specific


def _second_column(rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    return [list(row.values())[1:2] for row in rows]


def _table_types(_rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    return [(name,) for name in _TABLE_TYPES]


def _nothing(_rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    return []


_JDBC_TYPES = {
    TypeKind.VOID: 0,
    TypeKind.BOOLEAN: 16,
    TypeKind.BYTE: -6,
    TypeKind.SHORT: 5,
    TypeKind.INTEGER: 4,
    TypeKind.LONG: -5,
    TypeKind.FLOAT: 6,
    TypeKind.DOUBLE: 8,
    TypeKind.DECIMAL: 3,
    TypeKind.STRING: 12,
    TypeKind.BINARY: -2,
    TypeKind.DATE: 91,
    TypeKind.TIMESTAMP: 93,
    TypeKind.TIMESTAMP_NTZ: 93,
    TypeKind.ARRAY: 2003,
    TypeKind.MAP: 2000,
    TypeKind.STRUCT: 2002,
}
"""Numbers of `java.sql.Types`; OTHER for the rest."""
_OTHER = 1111
_DIGITS = {
    TypeKind.BYTE: 3,
    TypeKind.SHORT: 5,
    TypeKind.INTEGER: 10,
    TypeKind.LONG: 19,
    TypeKind.FLOAT: 7,
    TypeKind.DOUBLE: 15,
}
_TYPE_NAMES = {
    TypeKind.VOID: "VOID",
    TypeKind.BOOLEAN: "BOOLEAN",
    TypeKind.BYTE: "TINYINT",
    TypeKind.SHORT: "SMALLINT",
    TypeKind.INTEGER: "INT",
    TypeKind.LONG: "BIGINT",
    TypeKind.FLOAT: "FLOAT",
    TypeKind.DOUBLE: "DOUBLE",
    TypeKind.STRING: "STRING",
    TypeKind.BINARY: "BINARY",
    TypeKind.DECIMAL: "DECIMAL",
    TypeKind.DATE: "DATE",
    TypeKind.TIMESTAMP: "TIMESTAMP",
    TypeKind.ARRAY: "ARRAY",
    TypeKind.MAP: "MAP",
    TypeKind.STRUCT: "STRUCT",
}


def _type_name(spark_type: SparkType) -> str:
    return spark_type.sql if spark_type.children else spark_type.sql.upper()


def _jdbc_type(spark_type: SparkType) -> int:
    return _JDBC_TYPES.get(spark_type.kind, _OTHER)


def _size(spark_type: SparkType) -> int | None:
    """Return the number of digits, or of bytes of a value of a fixed length."""
    if spark_type.kind is TypeKind.DECIMAL:
        return spark_type.precision
    sizes = {TypeKind.BOOLEAN: 1, TypeKind.DATE: 10, TypeKind.TIMESTAMP: 29, **_DIGITS}
    return sizes.get(spark_type.kind)


def _digits(spark_type: SparkType) -> int | None:
    if spark_type.kind is TypeKind.DECIMAL:
        return spark_type.scale
    return 0 if spark_type.kind in _DIGITS else None


def _radix(spark_type: SparkType) -> int | None:
    return 10 if spark_type.kind is TypeKind.DECIMAL or spark_type.kind in _DIGITS else None


def _types(_rows: Iterable[dict[str, Any]]) -> Iterable[Row]:
    for kind, name in _TYPE_NAMES.items():
        is_number = kind in _DIGITS or kind is TypeKind.DECIMAL
        precision = 38 if kind is TypeKind.DECIMAL else _DIGITS.get(kind)
        yield (
            *(name, _JDBC_TYPES[kind], precision, None, None, None, _NULLABLE),
            *(kind is TypeKind.STRING, 3, not is_number, False, False, None, 0, 0, None, None),
            10 if is_number else None,
        )


_HIVE_SHOWS: dict[tuple[str, ...], MetadataCall] = {
    ("SHOW", "SCHEMAS"): MetadataCall.HIVE_SHOW_SCHEMAS,
    ("SHOW", "DATABASES"): MetadataCall.HIVE_SHOW_SCHEMAS,
    ("SHOW", "TABLES"): MetadataCall.HIVE_SHOW_TABLES,
    ("SHOW", "VIEWS"): MetadataCall.HIVE_SHOW_TABLES,
    ("SHOW", "COLUMNS"): MetadataCall.HIVE_SHOW_COLUMNS,
}
_SHAPES = {
    MetadataCall.HIVE_SHOW_SCHEMAS: _Shape("database_name string", _first_column),
    # Spark's first column is the schema.
    MetadataCall.HIVE_SHOW_TABLES: _Shape("tab_name string", _second_column),
    MetadataCall.HIVE_SHOW_COLUMNS: _Shape("field string", _first_column),
    MetadataCall.CATALOGS: _Shape("TABLE_CAT string", _first_column),
    MetadataCall.SCHEMAS: _Shape("TABLE_SCHEM string,TABLE_CATALOG string", _schemas),
    MetadataCall.TABLES: _Shape(
        "TABLE_CAT string,TABLE_SCHEM string,TABLE_NAME string,TABLE_TYPE string,REMARKS string,"
        "TYPE_CAT string,TYPE_SCHEM string,TYPE_NAME string,SELF_REFERENCING_COL_NAME string,"
        "REF_GENERATION string",
        _tables,
    ),
    MetadataCall.TABLE_TYPES: _Shape("TABLE_TYPE string", _table_types),
    MetadataCall.COLUMNS: _Shape(
        "TABLE_CAT string,TABLE_SCHEM string,TABLE_NAME string,COLUMN_NAME string,"
        "DATA_TYPE integer,TYPE_NAME string,COLUMN_SIZE integer,BUFFER_LENGTH byte,"
        "DECIMAL_DIGITS integer,NUM_PREC_RADIX integer,NULLABLE integer,REMARKS string,"
        "COLUMN_DEF string,SQL_DATA_TYPE integer,SQL_DATETIME_SUB integer,"
        "CHAR_OCTET_LENGTH integer,ORDINAL_POSITION integer,IS_NULLABLE string,"
        "SCOPE_CATALOG string,SCOPE_SCHEMA string,SCOPE_TABLE string,SOURCE_DATA_TYPE short,"
        "IS_AUTO_INCREMENT string",
        _columns,
    ),
    MetadataCall.FUNCTIONS: _Shape(
        "FUNCTION_CAT string,FUNCTION_SCHEM string,FUNCTION_NAME string,REMARKS string,"
        "FUNCTION_TYPE integer,SPECIFIC_NAME string",
        _functions,
    ),
    MetadataCall.TYPES: _Shape(
        "TYPE_NAME string,DATA_TYPE integer,PRECISION integer,LITERAL_PREFIX string,"
        "LITERAL_SUFFIX string,CREATE_PARAMS string,NULLABLE short,CASE_SENSITIVE boolean,"
        "SEARCHABLE short,UNSIGNED_ATTRIBUTE boolean,FIXED_PREC_SCALE boolean,"
        "AUTO_INCREMENT boolean,LOCAL_TYPE_NAME string,MINIMUM_SCALE short,MAXIMUM_SCALE short,"
        "SQL_DATA_TYPE integer,SQL_DATETIME_SUB integer,NUM_PREC_RADIX integer",
        _types,
    ),
    MetadataCall.PRIMARY_KEYS: _Shape(
        "TABLE_CAT string,TABLE_SCHEM string,TABLE_NAME string,COLUMN_NAME string,"
        "KEY_SEQ integer,PK_NAME string",
        _nothing,
    ),
    MetadataCall.CROSS_REFERENCE: _Shape(
        "PKTABLE_CAT string,PKTABLE_SCHEM string,PKTABLE_NAME string,PKCOLUMN_NAME string,"
        "FKTABLE_CAT string,FKTABLE_SCHEM string,FKTABLE_NAME string,FKCOLUMN_NAME string,"
        "KEY_SEQ integer,UPDATE_RULE integer,DELETE_RULE integer,FK_NAME string,PK_NAME string,"
        "DEFERRABILITY integer",
        _nothing,
    ),
}
