"""Results of statements: their description, and the rows of inline results.

A driver holds the rows of a `memory` result. In the column `disposition`, such a result is `stored`
and has a location: code that does not know holders reads it as a result without files, which is
gone, and not as an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Float, bindparam, exists, or_, select, update

from headrace.model.result import (
    Disposition,
    GoneReason,
    ResultAttempt,
    ResultHolder,
    ResultReport,
    ResultRequest,
    make_location,
)
from headrace.model.session import DriverLease, SessionKind
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.records import schema_to_column
from headrace.store.tables import results, sessions, statements

_INTERNAL = {"statement_id", "owner", "data", "deletion_failures", "retry_at"}
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 6 * 3600.0
_MAX_DOUBLINGS = 10
INFO_COLUMNS = [column for column in results.c if column.name not in _INTERNAL]
"""The columns of a ResultInfo."""

_INSERT = results.insert().values(
    expires_at=clock(bindparam("kept_seconds", type_=Float())),
    owner=select(statements.c.owner)
    .where(statements.c.id == bindparam("of_statement"))
    .scalar_subquery(),
)
_PLACE = select(
    sessions.c.results_location,
    statements.c.result_request,
    statements.c.epoch,
    statements.c.attempts,
).join_from(statements, sessions, sessions.c.id == statements.c.session_id)
_OF_STATEMENT = statements.c.id == bindparam("statement")
_NOT_GONE = results.c.gone_at.is_(None)
HAS_HELD_RESULT = exists().where(results.c.holder_session_id == sessions.c.id, _NOT_GONE)
"""Whether the driver of a session holds a result."""
_DATA = select(results.c.data).where(results.c.statement_id == bindparam("statement"))


def location_of(tx: Tx, statement_id: str) -> str | None:
    """Return the location at which the current attempt of a statement writes a stored result.

    Nodes alone choose this location. None if no driver has claimed the statement.
    """
    place = tx.execute(_PLACE.where(_OF_STATEMENT), {"statement": statement_id}).one_or_none()
    if place is None:
        return None
    request: ResultRequest = place.result_request
    return choose_location(
        place.results_location, request, statement_id, place.epoch, place.attempts
    )


def choose_location(
    session_location: str | None,
    request: ResultRequest,
    statement_id: str,
    epoch: int | None,
    attempts: int,
) -> str | None:
    """Return the location of a statement, as `location_of` does, from what is already read."""
    if epoch is None or session_location is None:
        return None
    return make_location(request.location or session_location, statement_id, epoch, attempts)


def flight_host_of(tx: Tx, session_id: str) -> str | None:
    """Return the address on which the driver of a session serves held results.

    None if the session holds no results: its driver is on another host than its node or was
    launched by an older node, or the session ends after its only statement.
    """
    query = select(sessions.c.flight_host).where(
        sessions.c.id == session_id, sessions.c.kind == SessionKind.INTERACTIVE
    )
    host: str | None = tx.execute(query).scalar_one_or_none()
    return host


def flight_secret_of(tx: Tx, holder: ResultHolder) -> str | None:
    """Return the key of the tokens for the results of a holder; None if the holder is gone."""
    query = select(sessions.c.flight_secret).where(
        sessions.c.id == holder.session_id,
        sessions.c.epoch == holder.epoch,
        sessions.c.ended_at.is_(None),
    )
    secret: str | None = tx.execute(query).scalar_one_or_none()
    return secret


def insert(
    tx: Tx, statement_id: str, report: ResultReport, seconds: float, *, lease: DriverLease | None
) -> None:
    """Insert a result that expires after `seconds`, at the place that the node has chosen.

    Args:
        lease: The driver that has reported the result; None: a node has executed the statement.

    Raises ValueError unless the result is inline, or the driver can have put it at that place.
    """
    location, holder, disposition = None, None, report.disposition
    if disposition is not Disposition.INLINE:
        location = location_of(tx, statement_id)
        if location is None:
            raise ValueError("a stored result needs a driver that has claimed the statement")
    if disposition is Disposition.MEMORY:
        holder, disposition = _make_holder(tx, lease, report.port), Disposition.STORED
    row = {
        "statement_id": statement_id,
        "disposition": disposition,
        "holder_session_id": None if holder is None else holder.session_id,
        "holder_epoch": None if holder is None else holder.epoch,
        "endpoint": None if holder is None else holder.endpoint,
        "spark_schema": schema_to_column(report.spark_schema, report.time_zone),
        "row_count": report.row_count,
        "byte_count": report.byte_count,
        "truncated": report.truncated,
        "chunks": report.chunks,
        "location": location,
        "data": report.data,
    }
    tx.execute(_INSERT, row | {"kept_seconds": seconds, "of_statement": statement_id})


def _make_holder(tx: Tx, lease: DriverLease | None, port: int | None) -> ResultHolder:
    host = None if lease is None else flight_host_of(tx, lease.session_id)
    if lease is None or host is None:
        raise ValueError("a memory result needs a driver that serves results")
    address = f"[{host}]" if ":" in host else host
    return ResultHolder(
        session_id=lease.session_id, epoch=lease.epoch, endpoint=f"{address}:{port}"
    )


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


def expire_old(tx: Tx, seconds: float, limit: int) -> int:
    """Let at most `limit` results of statements that ended more than `seconds` ago expire now.

    Return their number.
    """
    query = (
        select(results.c.statement_id)
        .join(statements, statements.c.id == results.c.statement_id)
        .where(
            _NOT_GONE,
            results.c.expires_at >= clock(),
            statements.c.ended_at.is_not(None),
            statements.c.ended_at < clock(-seconds),
        )
        .order_by(statements.c.ended_at)
        .limit(limit)
    )
    ids = list(tx.execute(query).scalars())
    if ids:
        # A session that ends locks the rows of its results in the same order.
        chosen = results.c.statement_id.in_(ids)
        lock = select(results.c.statement_id).where(chosen, _NOT_GONE)
        tx.execute(lock.order_by(results.c.statement_id).with_for_update()).all()
        tx.execute(update(results).where(chosen, _NOT_GONE).values(expires_at=clock(-1.0)))
    return len(ids)


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
    """Delete the rows of an expired result. Schema and counts stay."""
    removal = update(results).where(results.c.statement_id == statement_id, _NOT_GONE)
    tx.execute(removal.values(data=None, gone_at=clock(), gone_reason=GoneReason.EXPIRED))


def mark_held_gone(tx: Tx, session_id: str, reason: GoneReason) -> None:
    """Mark the results gone that the driver of a session holds, in the transaction of its end."""
    held = (results.c.holder_session_id == session_id, _NOT_GONE)
    # Retention may change the same rows: both lock them in the order of their statements.
    query = select(results.c.statement_id).where(*held).order_by(results.c.statement_id)
    if tx.execute(query.with_for_update()).all():
        tx.execute(update(results).where(*held).values(gone_at=clock(), gone_reason=reason))


def find_released(tx: Tx, lease: DriverLease, statement_ids: Sequence[str]) -> list[str]:
    """Return those of the statements whose results the driver does not need to hold any more."""
    if not statement_ids:
        return []
    query = select(results.c.statement_id).where(
        results.c.holder_session_id == lease.session_id,
        results.c.holder_epoch == lease.epoch,
        _NOT_GONE,
    )
    held = set(tx.execute(query).scalars())
    return [statement_id for statement_id in statement_ids if statement_id not in held]


def find_abandoned(
    tx: Tx, attempts: Sequence[ResultAttempt], *, grace_seconds: float
) -> list[ResultAttempt]:
    """Return the attempts whose files can be deleted.

    A statement that the store does not have may belong to another store with the same results
    location, so its files stay.

    Args:
        attempts: Attempts that have files. Keep the number small: one query asks for all.
        grace_seconds: Time since the end of the statement, after which no driver writes for it.
    """
    query = (
        select(
            statements.c.id,
            sessions.c.epoch,
            sessions.c.ended_at.label("session_ended_at"),
            sessions.c.fenced_driver,
            results.c.location,
        )
        .join_from(statements, sessions, sessions.c.id == statements.c.session_id)
        .outerjoin(results, results.c.statement_id == statements.c.id)
        .where(
            statements.c.id.in_({attempt.statement_id for attempt in attempts}),
            statements.c.ended_at < clock(-grace_seconds),
        )
    )
    rows = {row.id: row for row in tx.execute(query)}
    abandoned = []
    for attempt in attempts:
        row = rows.get(attempt.statement_id)
        if row is None or (row.location and attempt.is_at(row.location)):
            continue
        fenced = row.fenced_driver is not None and row.fenced_driver.epoch == attempt.epoch
        has_driver = row.session_ended_at is None and row.epoch == attempt.epoch
        if not (fenced or has_driver):
            abandoned.append(attempt)
    return abandoned
