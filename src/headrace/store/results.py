"""Results of statements: their description, and the rows of inline results."""

from __future__ import annotations

from sqlalchemy import Float, bindparam, select, update

from headrace.model.result import ResultReport
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import results

INFO_COLUMNS = [column for column in results.c if column.name not in {"statement_id", "data"}]
"""The columns of a ResultInfo."""

_INSERT = results.insert().values(expires_at=clock(bindparam("kept_seconds", type_=Float())))
_DATA = select(results.c.data).where(results.c.statement_id == bindparam("statement"))


def insert(tx: Tx, statement_id: str, report: ResultReport, seconds: float) -> None:
    """Insert a result that expires after `seconds`."""
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


def inline_data(tx: Tx, statement_id: str) -> bytes | None:
    """Return the Arrow IPC stream of an inline result; None if it is stored or was deleted."""
    data: bytes | None = tx.execute(_DATA, {"statement": statement_id}).scalar_one_or_none()
    return data


def expired(tx: Tx, limit: int) -> list[tuple[str, str | None]]:
    """Return at most `limit` expired results, oldest expiry first: statement id and location."""
    query = (
        select(results.c.statement_id, results.c.location)
        .where(results.c.gone_at.is_(None), results.c.expires_at < clock())
        .order_by(results.c.expires_at)
        .limit(limit)
    )
    return [(row.statement_id, row.location) for row in tx.execute(query)]


def mark_gone(tx: Tx, statement_id: str) -> None:
    """Delete the rows of a result. Schema and counts stay."""
    removal = update(results).where(
        results.c.statement_id == statement_id, results.c.gone_at.is_(None)
    )
    tx.execute(removal.values(data=None, gone_at=clock()))
