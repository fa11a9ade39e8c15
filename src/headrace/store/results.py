"""Results of statements: their description, and the rows of inline results."""

from __future__ import annotations

from sqlalchemy import Float, bindparam, or_, select, update

from headrace.model.result import ResultReport, make_location
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import results, sessions, statements

_INTERNAL = {"statement_id", "data", "deletion_failures", "retry_at"}
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 6 * 3600.0
_MAX_DOUBLINGS = 10
INFO_COLUMNS = [column for column in results.c if column.name not in _INTERNAL]
"""The columns of a ResultInfo."""

_INSERT = results.insert().values(expires_at=clock(bindparam("kept_seconds", type_=Float())))
_PLACE = select(
    sessions.c.results_location,
    statements.c.result_request,
    statements.c.epoch,
    statements.c.attempts,
).join_from(statements, sessions, sessions.c.id == statements.c.session_id)
_OF_STATEMENT = statements.c.id == bindparam("statement")
_DATA = select(results.c.data).where(results.c.statement_id == bindparam("statement"))


def location_of(tx: Tx, statement_id: str) -> str | None:
    """Return the location at which the current attempt of a statement writes a stored result.

    Nodes alone choose this location. None if no driver has claimed the statement.
    """
    place = tx.execute(_PLACE.where(_OF_STATEMENT), {"statement": statement_id}).one_or_none()
    if place is None or place.epoch is None or place.results_location is None:
        return None
    base = place.result_request.location or place.results_location
    return make_location(base, statement_id, place.epoch, place.attempts)


def insert(
    tx: Tx, statement_id: str, report: ResultReport, seconds: float, *, location: str | None
) -> None:
    """Insert a result that expires after `seconds`.

    Args:
        location: Location of a stored result, as `location_of` returns it.
    """
    row = {
        "statement_id": statement_id,
        "disposition": report.disposition,
        "spark_schema": report.spark_schema,
        "row_count": report.row_count,
        "byte_count": report.byte_count,
        "truncated": report.truncated,
        "chunks": report.chunks,
        "location": location,
        "data": report.data,
    }
    tx.execute(_INSERT, row | {"kept_seconds": seconds})


def inline_data(tx: Tx, statement_id: str) -> bytes | None:
    """Return the Arrow IPC stream of an inline result; None if it is stored or was deleted."""
    data: bytes | None = tx.execute(_DATA, {"statement": statement_id}).scalar_one_or_none()
    return data


def expired(tx: Tx, limit: int) -> list[tuple[str, str | None]]:
    """Return at most `limit` expired results, oldest expiry first: statement id and location.

    A result whose deletion has failed is left out until its pause is over.
    """
    query = (
        select(results.c.statement_id, results.c.location)
        .where(
            results.c.gone_at.is_(None),
            results.c.expires_at < clock(),
            or_(results.c.retry_at.is_(None), results.c.retry_at < clock()),
        )
        .order_by(results.c.expires_at)
        .limit(limit)
    )
    return [(row.statement_id, row.location) for row in tx.execute(query)]


def postpone_deletion(tx: Tx, statement_id: str) -> None:
    """Pause before the next attempt to delete a result, twice as long after each failure."""
    failures = select(results.c.deletion_failures).where(results.c.statement_id == statement_id)
    count = tx.execute(failures).scalar_one_or_none() or 0
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(count, _MAX_DOUBLINGS), _LONGEST_PAUSE_SECONDS)
    change = update(results).where(
        results.c.statement_id == statement_id, results.c.gone_at.is_(None)
    )
    tx.execute(change.values(deletion_failures=count + 1, retry_at=clock(pause)))


def mark_gone(tx: Tx, statement_id: str) -> None:
    """Delete the rows of a result. Schema and counts stay."""
    removal = update(results).where(
        results.c.statement_id == statement_id, results.c.gone_at.is_(None)
    )
    tx.execute(removal.values(data=None, gone_at=clock()))
