"""The rows of system tables for a driver: a snapshot, as Arrow."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from headrace.model.messages import FoundRows
from headrace.model.system_tables import (
    MAX_SYSTEM_ROWS,
    SYSTEM_COLUMNS,
    ColumnType,
    SystemTable,
)
from headrace.store import system_tables
from headrace.store.database import Tx

_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of a snapshot. It has fewer rows if they are longer."""
_ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.TEXT: pa.string(),
    ColumnType.TEXTS: pa.list_(pa.string()),
    ColumnType.NUMBER: pa.int64(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.INSTANT: pa.timestamp("us", "UTC"),
}


def find_rows(tx: Tx, owner: str, tables: list[SystemTable]) -> FoundRows:
    """Return the newest rows of system tables that belong to an owner."""
    limit = _MAX_BYTES // len(tables)
    return FoundRows(
        tables={table: _encode(read_table(tx, table, owner), limit) for table in tables}
    )


def read_table(tx: Tx, table: SystemTable, owner: str) -> pa.Table:
    """Return the newest rows of a system table."""
    rows = system_tables.list_rows(tx, table, owner, MAX_SYSTEM_ROWS)
    columns = SYSTEM_COLUMNS[table]
    schema = pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])
    values = {column.name: [_to_arrow(row[column.name]) for row in rows] for column in columns}
    return pa.table(values, schema=schema)


def _to_arrow(value: Any) -> Any:
    # A member of an enum is a text.
    return str(value) if isinstance(value, str) else value


def _encode(table: pa.Table, limit: int) -> str:
    if table.nbytes > limit:
        table = table.slice(0, int(table.num_rows * limit / table.nbytes))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()
