"""Renewals of the leases of drivers, and what a driver that owns its session sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Float, and_, bindparam, case, exists, select, update

from headrace.errors import LeaseLost
from headrace.model.lifecycle import SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import DriverLease, SessionKind
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.sessions.sessions import HAS_LIVE
from headrace.store.tables import sessions, statements

# Every driver runs this statement every few seconds.
_RENEWAL = update(sessions).values(
    lease_until=clock(bindparam("seconds", type_=Float())),
    last_update_time=clock(),
    # A session counts as used while it has a live statement.
    last_used_at=case((HAS_LIVE, clock()), else_=sessions.c.last_used_at),
)
_RENEW = (
    _RENEWAL.where(
        sessions.c.id == bindparam("session"),
        sessions.c.epoch == bindparam("lease_epoch"),
        sessions.c.state.in_(sorted(SESSION.leased)),
    )
    .values(streams=bindparam("running_streams"))
    .returning(sessions.c.state)
)
_RENEW_LOCKED = _RENEWAL.values(streams=0)


def renew(tx: Tx, lease: DriverLease, seconds: float, *, streams: int = 0) -> SessionState | None:
    """Renew a driver's lease. An expired lease can be renewed until a takeover raises the epoch.

    Args:
        seconds: Length of the lease from now.
        streams: Number of streaming queries that run in the driver.

    Returns:
        State of the session. None if the lease is lost.
    """
    names = {
        "session": lease.session_id,
        "lease_epoch": lease.epoch,
        "seconds": seconds,
        "running_streams": streams,
    }
    state: SessionState | None = tx.execute(_RENEW, names).scalar_one_or_none()
    return state


def renew_all(tx: Tx, leases: Sequence[DriverLease], seconds: float) -> list[DriverLease]:
    """Renew leases of drivers without running queries, and return those that are renewed.

    A lost lease is not renewed, nor is the lease of a session that another transaction has locked:
    waiting for one lock while holding others could block both transactions.
    """
    query = select(sessions.c.id, sessions.c.epoch).where(
        sessions.c.id.in_([lease.session_id for lease in leases]),
        sessions.c.state.in_(sorted(SESSION.leased)),
    )
    rows = tx.execute(query.with_for_update(skip_locked=True))
    found = {(row.id, row.epoch) for row in rows}
    renewed = [lease for lease in leases if (lease.session_id, lease.epoch) in found]
    if renewed:
        ids = [lease.session_id for lease in renewed]
        tx.execute(_RENEW_LOCKED.where(sessions.c.id.in_(ids)), {"seconds": seconds})
    return renewed


_LIVE = (statements.c.session_id == sessions.c.id, statements.c.ended_at.is_(None))
_HAS_WAITING = (
    exists().where(*_LIVE, statements.c.state == StatementState.WAITING).correlate(sessions)
)
_BATCH_SUBMITTED = and_(sessions.c.kind == SessionKind.BATCH, sessions.c.next_ordinal > 0)
_VIEW = (
    select(
        sessions.c.epoch,
        sessions.c.state.label("session_state"),
        sessions.c.parallelism,
        sessions.c.pool,
        sessions.c.streams_generation,
        sessions.c.link_process,
        sessions.c.results_location,
        _BATCH_SUBMITTED.label("batch_submitted"),
        _HAS_WAITING.label("has_waiting"),
        statements.c.id,
        statements.c.state,
        statements.c.ordinal,
    )
    .outerjoin_from(
        sessions, statements, and_(*_LIVE, statements.c.state.in_(sorted(STATEMENT.in_flight)))
    )
    .where(sessions.c.id == bindparam("session"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverView:
    """The part of a session that concerns its driver."""

    epoch: int
    state: SessionState
    parallelism: int
    """Largest number of queries in flight; in a pool session, of all statements."""
    pool: bool
    """Whether each statement of the session runs in a Spark session of its own."""
    streams_generation: int
    """Generation of the desired queries."""
    link_process: str | None
    """Process that has answered the last polls of the driver."""
    results_location: str | None
    """Where the driver writes stored results; None before its launch."""
    batch_submitted: bool
    """Whether the session is a batch session whose statement was submitted."""
    has_waiting: bool
    """Whether a statement of the session is `waiting`."""
    in_flight: list[tuple[str, StatementState]]
    """Id and state of the statements in flight, in order of submission."""


def load_driver_view(tx: Tx, session_id: str) -> DriverView | None:
    """Return the view of a session's driver, or None if there is no such session."""
    rows = tx.execute(_VIEW, {"session": session_id}).all()
    if not rows:
        return None
    session = rows[0]
    # There are few rows: SQLite would build a temporary B-tree to sort them.
    in_flight = sorted((row for row in rows if row.id is not None), key=lambda row: row.ordinal)
    return DriverView(
        epoch=session.epoch,
        state=session.session_state,
        parallelism=session.parallelism,
        pool=session.pool,
        streams_generation=session.streams_generation,
        link_process=session.link_process,
        results_location=session.results_location,
        batch_submitted=session.batch_submitted,
        has_waiting=session.has_waiting,
        in_flight=[(row.id, row.state) for row in in_flight],
    )


def load_owned_view(tx: Tx, lease: DriverLease) -> DriverView:
    """Return the view of a session for its driver.

    Raise LeaseLost if the session has ended or another epoch owns it.
    """
    view = load_driver_view(tx, lease.session_id)
    if view is None or view.epoch != lease.epoch or view.state in SESSION.terminal:
        raise LeaseLost(f"Epoch {lease.epoch} of session {lease.session_id} is superseded.")
    return view
