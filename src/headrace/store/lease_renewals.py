"""Renewals of the leases of drivers."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Float, bindparam, case, select, update

from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.sessions import HAS_LIVE, LEASED_STATES
from headrace.store.tables import sessions

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
        sessions.c.state.in_(LEASED_STATES),
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
        sessions.c.state.in_(LEASED_STATES),
    )
    rows = tx.execute(query.with_for_update(skip_locked=True))
    found = {(row.id, row.epoch) for row in rows}
    renewed = [lease for lease in leases if (lease.session_id, lease.epoch) in found]
    if renewed:
        ids = [lease.session_id for lease in renewed]
        tx.execute(_RENEW_LOCKED.where(sessions.c.id.in_(ids)), {"seconds": seconds})
    return renewed
