"""Results in the store: what is known of each, and the rows of inline ones."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Float, bindparam, select, update

from headrace.model.result import ResultInfo, ResultReport
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import results

INFO_COLUMNS = [column for column in results.c if column.name not in {"statement_id", "data"}]

_INSERT = results.insert().values(expires_at=clock(bindparam("kept_seconds", type_=Float())))
_DATA = select(results.c.data).where(results.c.statement_id == bindparam("statement"))


def insert(tx: Tx, statement_id: str, report: ResultReport, seconds: float) -> None:
    """Make a result readable, for `seconds` from now."""
    row = {
        "statement_id": statement_id,
        "disposition": report.disposition,
        "spark_schema": report.spark_schema,
        "row_count": report.row_count,
        "byte_count": report.byte_count,
        "truncated": report.truncated,
        "chunks": report.chunks,
        "location": report.location,
        "data": report.data,
    }
    tx.execute(_INSERT, row | {"kept_seconds": seconds})


def info(columns: dict[str, Any]) -> ResultInfo | None:
    """What INFO_COLUMNS of an outer join say; None when there is no result."""
    if columns["disposition"] is None:
        return None
    gone = columns.pop("gone_at") is not None
    return ResultInfo(**columns, gone=gone)


def inline_data(tx: Tx, statement_id: str) -> bytes | None:
    """The Arrow IPC stream of an inline result; None when there is none, or no longer."""
    data: bytes | None = tx.execute(_DATA, {"statement": statement_id}).scalar_one_or_none()
    return data


def expired(tx: Tx, limit: int) -> list[tuple[str, str | None]]:
    """Results whose time is over by the database's clock, longest over first: id and location."""
    query = (
        select(results.c.statement_id, results.c.location)
        .where(results.c.gone_at.is_(None), results.c.expires_at < clock())
        .order_by(results.c.expires_at)
        .limit(limit)
    )
    return [(row.statement_id, row.location) for row in tx.execute(query)]


def mark_gone(tx: Tx, statement_id: str) -> None:
    """Drop the rows; schema and counts stay."""
    dropped = update(results).where(
        results.c.statement_id == statement_id, results.c.gone_at.is_(None)
    )
    tx.execute(dropped.values(data=None, gone_at=clock()))
