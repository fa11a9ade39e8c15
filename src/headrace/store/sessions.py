"""Sessions in the store: made, leased and ended; takeovers.py launches and takes over drivers."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from sqlalchemy import Float, Select, and_, bindparam, case, exists, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import SessionNameExists
from headrace.model.failure import Failure
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import NewSession, Session, SessionKind
from headrace.store import events, pending_hook_calls, snapshots
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.tables import sessions, statements

_log = logging.getLogger(__name__)

_ENTITY = "session"
_INTERNAL = {"next_ordinal", "token_hash"}
_LIVE = sessions.c.ended_at.is_(None)
# The states in which somebody answers for a session by a lease.
_LEASED = sorted(SESSION.live - {SessionState.NOT_STARTED})

_HAS_LIVE = exists().where(
    statements.c.session_id == sessions.c.id, statements.c.ended_at.is_(None)
)
_ACTIVE = (
    select(func.count())
    .where(statements.c.session_id == sessions.c.id, statements.c.ended_at.is_(None))
    .scalar_subquery()
)
_SELECT = select(
    *(column for column in sessions.c if column.name not in _INTERNAL), _ACTIVE.label("active")
)
_GET = _SELECT.where(sessions.c.id == bindparam("session"))
_ID_OF_NAME = select(sessions.c.id).where(
    sessions.c.owner == bindparam("actor"), sessions.c.name == bindparam("called"), _LIVE
)
_ID_IF_OWNED = select(sessions.c.id).where(
    sessions.c.owner == bindparam("actor"), sessions.c.id == bindparam("called")
)
_IDLE = _SELECT.where(
    _LIVE,
    sessions.c.state.in_([SessionState.RUNNING, SessionState.RECOVERING]),
    sessions.c.streams == 0,
    ~_HAS_LIVE,
    # A session that was never used is idle since its driver is there.
    func.coalesce(sessions.c.last_used_at, sessions.c.started_at) < clock(-sessions.c.idle_seconds),
)
# Every driver does this every few seconds.
_RENEW = (
    update(sessions)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.epoch == bindparam("holder"),
        sessions.c.state.in_(_LEASED),
    )
    .values(
        lease_until=clock(bindparam("seconds", type_=Float())),
        last_update_time=clock(),
        streams=bindparam("running_streams"),
        # While anything is live in it, a session is used: it becomes idle from here on.
        last_used_at=case((_HAS_LIVE, clock()), else_=sessions.c.last_used_at),
    )
    .returning(sessions.c.state)
)


def insert(tx: Tx, new: NewSession, *, actor: str) -> None:
    """Make a session that waits for its driver.

    Raises NameTaken when a live session of this owner has the name.
    """
    row = {
        "id": new.id,
        "owner": new.owner,
        "kind": new.kind,
        "name": new.name,
        "state": SESSION.initial,
        "profile": new.profile,
        "conf": new.conf,
        "catalog": new.catalog,
        "database": new.database,
        "jars": new.jars,
        "files": new.files,
        "py_files": new.py_files,
        "idle_seconds": new.idle_seconds,
        "ttl_seconds": new.ttl_seconds,
        "parallelism": new.parallelism,
        "warm": new.warm,
    }
    query = sessions.insert().values(epoch=0, next_ordinal=0, created_at=clock())
    try:
        tx.execute(query, row)
    except IntegrityError as error:
        raise SessionNameExists(f"A live session is named {new.name!r} already.") from error
    events.append(tx, _ENTITY, new.id, None, SESSION.initial, actor=actor)
    tx.wake(session_topic(new.id), LAUNCH)


def get(tx: Tx, session_id: str) -> Session | None:
    """The session of that id."""
    row = tx.execute(_GET, {"session": session_id}).mappings().one_or_none()
    return None if row is None else Session(**row)


def id_of_name(tx: Tx, owner: str, name: str) -> str | None:
    """The id of the owner's live session of that name."""
    found: str | None = tx.execute(_ID_OF_NAME, {"actor": owner, "called": name}).scalar()
    return found


def is_owned(tx: Tx, owner: str, session_id: str) -> bool:
    """Whether there is a session of that id and it is this owner's."""
    return tx.execute(_ID_IF_OWNED, {"actor": owner, "called": session_id}).scalar() is not None


def page(
    tx: Tx,
    *,
    owner: str | None = None,
    states: Collection[SessionState] | None = None,
    before: str | None = None,
    limit: int = 100,
) -> list[Session]:
    """At most `limit` sessions, newest first; `before` is the id of the last one seen."""
    query = _SELECT
    if owner is not None:
        query = query.where(sessions.c.owner == owner)
    if states is not None:
        query = query.where(sessions.c.state.in_(states))
        if SESSION.terminal.isdisjoint(states):
            query = query.where(_LIVE)
    if before is not None:
        query = query.where(sessions.c.id < before)
    return all_of(tx, query.order_by(sessions.c.id.desc()).limit(limit))


def launchable(tx: Tx, limit: int) -> list[Session]:
    """Sessions that need a driver and have none, oldest first.

    One whose driver was lost is rebuilt when it is needed: when a statement waits in it.
    """
    wanted = or_(
        and_(sessions.c.state == SessionState.NOT_STARTED, sessions.c.kind != SessionKind.LOCAL),
        sessions.c.state == SessionState.STARTING,
        and_(sessions.c.state == SessionState.RECOVERING, _HAS_LIVE),
    )
    free = (sessions.c.lease_until.is_(None), sessions.c.fenced_driver.is_(None))
    return all_of(tx, _SELECT.where(_LIVE, wanted, *free).order_by(sessions.c.id).limit(limit))


def live(tx: Tx, *, launched_by: str | None = None) -> list[Session]:
    """Every session that has not ended, oldest first; those that one node launched, if given."""
    query = _SELECT.where(_LIVE).order_by(sessions.c.id)
    if launched_by is not None:
        query = query.where(sessions.c.launched_by == launched_by)
    return all_of(tx, query)


def live_query() -> Select[Any]:
    """Every session that has not ended."""
    return _SELECT.where(_LIVE)


def overdue_query(*, over: bool = True) -> Select[Any]:
    """Live sessions that somebody answers for; with `over`, whose lease has run out."""
    query = _SELECT.where(_LIVE, sessions.c.lease_until.is_not(None))
    return query.where(sessions.c.lease_until < clock()) if over else query


def set_handle(tx: Tx, session_id: str, epoch: int, handle: dict[str, Any]) -> bool:
    """Keep what the launcher finds the driver by.

    False when the epoch was superseded, or the session has ended.
    """
    kept = update(sessions).where(sessions.c.id == session_id, sessions.c.epoch == epoch, _LIVE)
    return tx.execute(kept.values(handle=handle)).rowcount > 0


def transition(
    tx: Tx,
    session_id: str,
    target: SessionState,
    *,
    actor: str,
    epoch: int | None = None,
    failure: Failure | None = None,
    driver: dict[str, Any] | None = None,
    detail: dict[str, Any] | None = None,
    lease_seconds: float | None = None,
    lost: list[str] | None = None,
) -> bool:
    """Change the state, when the lifecycle allows it from where the session is.

    With `epoch`, only while that is the session's. Returns whether it landed.
    """
    source = _lock(tx, session_id, epoch)
    if source is None or not SESSION.allows(source, target):
        return False
    values = _entering(target, lease_seconds)
    known = {"failure": failure, "driver": driver, "lost": lost}
    values |= {name: value for name, value in known.items() if value is not None}
    same = update(sessions).where(sessions.c.id == session_id, sessions.c.state == source)
    applied = tx.execute(same.values(values)).rowcount > 0
    if applied and target in SESSION.terminal:
        snapshots.discard(tx, session_id)
        pending_hook_calls.remove(tx, session_id)
    if applied:
        events.append(
            tx, _ENTITY, session_id, source, target, actor=actor, detail=detail, failure=failure
        )
        tx.wake(session_topic(session_id))
    return applied


def _entering(target: SessionState, lease_seconds: float | None) -> dict[str, Any]:
    """What changes with the state."""
    values: dict[str, Any] = {"state": target}
    if target is SessionState.RUNNING:
        values["started_at"] = func.coalesce(sessions.c.started_at, clock())
        values["last_update_time"] = clock()
        values["starts"] = 0
    if target in SESSION.terminal:
        values.update(ended_at=clock(), lease_until=None, fenced_driver=None)
    elif lease_seconds is not None:
        values["lease_until"] = clock(lease_seconds)
    return values


def idle(tx: Tx, limit: int) -> list[Session]:
    """Sessions that have been idle for longer than they may, by the database's clock.

    One with a live statement or a streaming query is never idle.
    """
    return all_of(tx, _IDLE.order_by(sessions.c.id).limit(limit))


def is_idle(tx: Tx, session_id: str) -> bool:
    """Whether that session has been idle for longer than it may."""
    return tx.execute(_IDLE.where(sessions.c.id == session_id)).first() is not None


def lock(tx: Tx, session_id: str) -> None:
    """Nobody else changes the session, or submits to it, until this transaction ends."""
    tx.execute(select(sessions.c.id).where(sessions.c.id == session_id).with_for_update())


def aged(tx: Tx, limit: int) -> list[Session]:
    """Sessions that have lived for longer than they may and are not closing yet."""
    query = _SELECT.where(
        _LIVE,
        sessions.c.state != SessionState.CLOSING,
        sessions.c.created_at < clock(-sessions.c.ttl_seconds),
    )
    return all_of(tx, query.order_by(sessions.c.id).limit(limit))


def renew(
    tx: Tx, session_id: str, epoch: int, seconds: float, *, streams: int = 0
) -> SessionState | None:
    """Prolong a driver's lease, an expired one too, until a takeover has raised the epoch.

    The driver says how many streaming queries run in it. Returns the session's state, or None when
    the lease is lost.
    """
    names = {
        "session": session_id,
        "holder": epoch,
        "seconds": seconds,
        "running_streams": streams,
    }
    state: SessionState | None = tx.execute(_RENEW, names).scalar_one_or_none()
    return state


def extend_all(tx: Tx, *, node: str, seconds: float) -> int:
    """Give every driver at least `seconds` to come back, because `node` was away.

    Returns how many leases were prolonged; none is shortened.
    """
    # In order, so that two nodes that come back at once do not wait for each other.
    late = (
        select(sessions.c.number)
        .where(_LIVE, sessions.c.lease_until < clock(seconds))
        .order_by(sessions.c.number)
        .with_for_update()
    )
    prolonged = update(sessions).where(sessions.c.number.in_(late))
    prolonged = prolonged.values(lease_until=clock(seconds))
    count = tx.execute(prolonged).rowcount
    if count:
        _log.info("node %s was away: %d drivers get %g s to come back", node, count, seconds)
    return count


def token_hash(tx: Tx, session_id: str, epoch: int) -> str | None:
    """The hash of the token that is good for this session and epoch; None when superseded."""
    query = select(sessions.c.token_hash)
    known: str | None = tx.execute(
        query.where(sessions.c.id == session_id, sessions.c.epoch == epoch)
    ).scalar_one_or_none()
    return known


def _lock(tx: Tx, session_id: str, epoch: int | None) -> SessionState | None:
    """The present state, which nobody else changes until this transaction ends."""
    query = select(sessions.c.state).where(sessions.c.id == session_id).with_for_update()
    if epoch is not None:
        query = query.where(sessions.c.epoch == epoch)
    state: SessionState | None = tx.execute(query).scalar_one_or_none()
    return state


def all_of(tx: Tx, query: Select[Any]) -> list[Session]:
    """The sessions that a query finds."""
    return [Session(**row) for row in tx.execute(query).mappings()]
