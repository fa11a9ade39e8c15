"""The rows of system tables: the newest objects of one owner."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Column, ColumnElement, RowMapping, Select, Table, func, null, select

from headrace.model.failure import Failure
from headrace.model.lineage import TableUse
from headrace.model.stream_query import ADHOC_SCOPE
from headrace.model.system_tables import MAX_SHOWN_TEXT, SYSTEM_COLUMNS, SystemTable
from headrace.model.text import cut_text
from headrace.store.database import Tx
from headrace.store.tables import (
    events,
    lineage,
    run_statements,
    runs,
    statements,
    stream_lineage,
    stream_queries,
)

Row = dict[str, Any]

_SEARCHED_EVENTS = 100_000
"""Newest events of all owners among which those of one owner are found."""


def list_rows(tx: Tx, table: SystemTable, owner: str, limit: int) -> list[Row]:
    """Return the newest rows of a system table that belong to an owner, newest first."""
    read, to_row = _TABLES[table]
    rows = [to_row(row) for row in tx.execute(read(owner, limit)).mappings()]
    if table is SystemTable.EVENTS:
        rows = [row for row in rows if row.pop("owner") == owner][:limit]
    if table is SystemTable.LINEAGE:
        of_streams = tx.execute(_read_stream_lineage(owner, limit)).mappings()
        rows += [to_row(row) for row in of_streams]
        rows = sorted(rows, key=lambda row: row["at"], reverse=True)[:limit]
    return rows


def _of_owner(table: Table, *columns: ColumnElement[Any]) -> Callable[[str, int], Select[Any]]:
    def read(owner: str, limit: int) -> Select[Any]:
        query = select(*columns).where(table.c.owner == owner)
        return query.order_by(table.c.id.desc()).limit(limit)

    return read


def _start_of(column: Column[str]) -> ColumnElement[Any]:
    """Return the begin of a long text. The rest does not leave the database."""
    return func.substr(column, 1, MAX_SHOWN_TEXT)


def _read_events(_owner: str, _limit: int) -> Select[Any]:
    names = ("owner", *(column.name for column in SYSTEM_COLUMNS[SystemTable.EVENTS]))
    query = select(*(events.c[name] for name in names))
    return query.order_by(events.c.id.desc()).limit(_SEARCHED_EVENTS)


def _read_lineage(owner: str, limit: int) -> Select[Any]:
    return (
        select(
            lineage.c.statement_id,
            lineage.c.direction,
            lineage.c.table_use,
            lineage.c.at,
            runs.c.name.label("job"),
            runs.c.id.label("run_id"),
        )
        .join_from(statements, lineage, lineage.c.statement_id == statements.c.id)
        .outerjoin(run_statements, run_statements.c.statement_id == lineage.c.statement_id)
        .outerjoin(runs, runs.c.id == run_statements.c.run_id)
        .where(statements.c.owner == owner)
        .order_by(statements.c.id.desc())
        .limit(limit)
    )


def _read_stream_lineage(owner: str, limit: int) -> Select[Any]:
    return (
        select(
            stream_lineage.c.query_id.label("statement_id"),
            stream_lineage.c.direction,
            stream_lineage.c.table_use,
            stream_lineage.c.at,
            func.nullif(stream_queries.c.scope, ADHOC_SCOPE).label("job"),
            null().label("run_id"),
        )
        .join_from(stream_queries, stream_lineage, stream_lineage.c.query_id == stream_queries.c.id)
        .where(stream_queries.c.owner == owner)
        .order_by(stream_queries.c.id.desc())
        .limit(limit)
    )


def _keep(row: RowMapping) -> Row:
    return dict(row)


def _with_error(row: RowMapping) -> Row:
    values = dict(row)
    failure: Failure | None = values.pop("failure")
    values["error_code"] = None if failure is None else failure.code
    values["error"] = None if failure is None else cut_text(failure.message, MAX_SHOWN_TEXT)
    return values


def _with_detail(row: RowMapping) -> Row:
    detail = json.dumps(row["detail"], ensure_ascii=False)
    return {**row, "detail": cut_text(detail, MAX_SHOWN_TEXT)}


def _with_table(row: RowMapping) -> Row:
    values = dict(row)
    use: TableUse | None = values.pop("table_use")
    return values | {
        "table_name": None if use is None else use.display_name,
        "catalog": None if use is None else use.catalog,
        "location": None if use is None else use.location,
        "columns": None if use is None else use.columns,
    }


def _columns_of(table: Table, system: SystemTable, *missing: str) -> list[ColumnElement[Any]]:
    names = {column.name for column in SYSTEM_COLUMNS[system]}
    return [column for column in table.c if column.name in names.difference(missing)]


_TABLES: Mapping[
    SystemTable, tuple[Callable[[str, int], Select[Any]], Callable[[RowMapping], Row]]
] = {
    SystemTable.STATEMENTS: (
        _of_owner(
            statements,
            *_columns_of(statements, SystemTable.STATEMENTS),
            _start_of(statements.c.text).label("statement"),
            statements.c.failure,
        ),
        _with_error,
    ),
    SystemTable.RUNS: (
        _of_owner(
            runs,
            *_columns_of(runs, SystemTable.RUNS, "reason"),
            runs.c.name.label("job"),
            func.nullif(runs.c.reason, "").label("reason"),
            runs.c.failure,
        ),
        _with_error,
    ),
    SystemTable.STREAMS: (
        _of_owner(
            stream_queries,
            *_columns_of(stream_queries, SystemTable.STREAMS),
            stream_queries.c.last_error.label("failure"),
        ),
        _with_error,
    ),
    SystemTable.EVENTS: (_read_events, _with_detail),
    SystemTable.LINEAGE: (_read_lineage, _with_table),
}
