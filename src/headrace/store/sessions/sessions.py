"""Sessions: creation, states and names. takeovers.py launches and takes over drivers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from headrace.errors import SessionNameExists
from headrace.model.failure import Failure
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.result import GoneReason
from headrace.model.session import DriverLease, NewSession, Session, SessionKind, Snapshot
from headrace.model.statement import PendingHookCall
from headrace.store import events
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.records import record_to_columns, row_to_session, starts_with
from headrace.store.statements import results
from headrace.store.streams.stream_queries import HAS_LIVE_QUERY, NEEDS_DRIVER
from headrace.store.tables import OPEN_POOL, pending_hook_calls, sessions, snapshots, statements
from headrace.store.transitions import Transitions
from headrace.text.readable import describe_duration


def add_hook_calls(tx: Tx, session_id: str, statement_ids: Sequence[str]) -> None:
    """Add a pending call for each of these statements, which have just ended."""
    if statement_ids:
        rows = [
            {"session_id": session_id, "statement_id": statement_id}
            for statement_id in statement_ids
        ]
        tx.execute(pending_hook_calls.insert(), rows)


def list_hook_calls(tx: Tx, session_id: str) -> list[PendingHookCall]:
    """Return the pending calls of a session, in the order of the statements."""
    query = (
        select(
            statements.c.id.label("statement_id"),
            statements.c.text,
            statements.c.attempts.label("attempt"),
            statements.c.state,
            statements.c.failure,
        )
        .join_from(
            pending_hook_calls, statements, statements.c.id == pending_hook_calls.c.statement_id
        )
        .where(pending_hook_calls.c.session_id == session_id)
        .order_by(statements.c.ordinal)
    )
    return [PendingHookCall(**row) for row in tx.execute(query).mappings()]


def remove_hook_calls(tx: Tx, session_id: str, statement_ids: Sequence[str] | None = None) -> None:
    """Remove the pending calls of these statements of a session; None: all of the session."""
    removal = delete(pending_hook_calls).where(pending_hook_calls.c.session_id == session_id)
    if statement_ids is not None:
        removal = removal.where(pending_hook_calls.c.statement_id.in_(statement_ids))
    tx.execute(removal)


def save_snapshot(tx: Tx, session_id: str, snapshot: Snapshot) -> None:
    """Replace the snapshot of a session.

    The transaction must have locked a statement that the session's driver owns: this fences the
    write.
    """
    values = {"snapshot": snapshot, "taken_at": clock()}
    of_session = snapshots.c.session_id == session_id
    if not tx.execute(update(snapshots).where(of_session).values(values)).rowcount:
        tx.execute(snapshots.insert().values(session_id=session_id, **values))


def get_snapshot(tx: Tx, session_id: str) -> Snapshot | None:
    """Return the last snapshot, or None if nothing has changed since the session started."""
    query = select(snapshots.c.snapshot).where(snapshots.c.session_id == session_id)
    snapshot: Snapshot | None = tx.execute(query).scalar_one_or_none()
    return snapshot


def discard_snapshot(tx: Tx, session_id: str) -> None:
    """Delete the snapshot of a session that has ended."""
    tx.execute(delete(snapshots).where(snapshots.c.session_id == session_id))


_TRANSITIONS = Transitions(SESSION, sessions)
_INTERNAL = {
    *("next_ordinal", "token_hash", "results_location", "closing_since", "streams_generation"),
    *("link_process", "flight_host", "flight_secret"),
}
_LIVE = sessions.c.ended_at.is_(None)
_REASONS = {
    SessionState.DEAD: GoneReason.SESSION_CLOSED,
    SessionState.FAILED: GoneReason.SESSION_FAILED,
}
"""Why the results are gone that the driver of an ended session has held."""

HAS_LIVE = exists().where(statements.c.session_id == sessions.c.id, statements.c.ended_at.is_(None))
"""The condition that a session has a statement that has not ended."""
_ACTIVE = (
    select(func.count())
    .where(statements.c.session_id == sessions.c.id, statements.c.ended_at.is_(None))
    .scalar_subquery()
)
_SELECT = select(
    *(column for column in sessions.c if column.name not in _INTERNAL), _ACTIVE.label("active")
)
_MAX_NAMED = 10
"""Largest number of sessions of several owners that are listed for one name."""
_GET = _SELECT.where(sessions.c.id == bindparam("session"))
_ID_OF_NAME = select(sessions.c.id).where(
    sessions.c.owner == bindparam("caller"), sessions.c.name == bindparam("called"), _LIVE
)
_OWNER = select(sessions.c.owner).where(sessions.c.id == bindparam("session"))
_drivers = (
    select(sessions.c.owner, func.count().label("number"))
    .where(_LIVE, sessions.c.lease_until.is_not(None))
    .group_by(sessions.c.owner)
    .subquery()
)


_LAUNCHABLE = (
    _LIVE,
    or_(
        and_(sessions.c.state == SessionState.NOT_STARTED, sessions.c.kind != SessionKind.LOCAL),
        sessions.c.state == SessionState.STARTING,
        and_(sessions.c.state == SessionState.RECOVERING, or_(HAS_LIVE, NEEDS_DRIVER)),
    ),
    sessions.c.lease_until.is_(None),
    sessions.c.fenced_driver.is_(None),
)


class CloseRule(NamedTuple):
    """When the nodes close a session on their own."""

    conditions: tuple[ColumnElement[bool], ...]
    """Conditions on a live session."""
    describe: Callable[[Session], str]
    """Returns the reason for the event of a session that meets them."""


IDLE = CloseRule(
    (
        # A session with a live statement, a streaming query or a held result is never idle.
        sessions.c.state.in_([SessionState.RUNNING, SessionState.RECOVERING]),
        sessions.c.streams == 0,
        ~HAS_LIVE,
        ~HAS_LIVE_QUERY,
        ~results.HAS_HELD_RESULT,
        # A session that was never used is idle from the moment its driver is up.
        seconds_since(func.coalesce(sessions.c.last_used_at, sessions.c.started_at))
        > sessions.c.idle_seconds,
    ),
    lambda session: f"idle for {describe_duration(session.idle_seconds or 0)}",
)
AGED = CloseRule(
    (
        sessions.c.state != SessionState.CLOSING,
        seconds_since(sessions.c.created_at) > sessions.c.ttl_seconds,
    ),
    lambda session: f"older than {describe_duration(session.ttl_seconds or 0)}",
)
CLOSE_RULES: Mapping[str, CloseRule] = {"idle timeouts": IDLE, "ttl of sessions": AGED}
"""All rules, by what they enforce."""


def insert(tx: Tx, new: NewSession, *, actor: str) -> None:
    """Insert a session that needs a driver.

    Raises:
        SessionNameExists: A live session of this owner has the name.
    """
    row = {**columns_of(new), "state": SESSION.initial}
    query = sessions.insert().values(epoch=0, next_ordinal=0, created_at=clock())
    try:
        tx.execute(query, row)
    except IntegrityError as error:
        if new.name is None:
            raise
        raise build_name_error(new) from error
    events.append_creation(tx, SESSION, new.id, actor=actor)
    tx.wake(session_topic(new.id), LAUNCH)


def columns_of(new: NewSession, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a new session by column name; see `record_to_columns`."""
    columns = record_to_columns(new, without=("actor", *without))
    return {**columns, "parallelism": new.parallelism or 1}


def build_name_error(new: NewSession) -> SessionNameExists:
    """Build the error for a name that another live session of the owner has."""
    return SessionNameExists(
        f"A live session named {new.name!r} already exists.",
        hint="Use that session, close it first, or choose another name.",
    )


def get(tx: Tx, session_id: str) -> Session | None:
    """Return a session, or None if there is no such session."""
    row = tx.execute(_GET, {"session": session_id}).mappings().one_or_none()
    return None if row is None else row_to_session(row)


def id_of_name(tx: Tx, owner: str, name: str) -> str | None:
    """Return the id of the owner's live session with this name, or None if there is none."""
    session_id: str | None = tx.execute(_ID_OF_NAME, {"caller": owner, "called": name}).scalar()
    return session_id


class NamedSession(NamedTuple):
    """Id and owner of the session that a name or number stands for."""

    id: str
    owner: str


def list_named(tx: Tx, owners: Collection[str] | None, name: str) -> list[NamedSession]:
    """Return the live sessions of these owners with this name; None: of all owners."""
    query = select(sessions.c.id, sessions.c.owner).where(sessions.c.name == name, _LIVE)
    if owners is not None:
        query = query.where(sessions.c.owner.in_(owners))
    rows = tx.execute(query.limit(_MAX_NAMED))
    return [NamedSession(row.id, row.owner) for row in rows]


def find_number(tx: Tx, number: int) -> NamedSession | None:
    """Return id and owner of the session with this number, or None if it does not exist."""
    query = select(sessions.c.id, sessions.c.owner).where(sessions.c.number == number)
    row = tx.execute(query).one_or_none()
    return None if row is None else NamedSession(row.id, row.owner)


def owner_of(tx: Tx, session_id: str) -> str | None:
    """Return the owner of a session, or None if the session does not exist."""
    owner: str | None = tx.execute(_OWNER, {"session": session_id}).scalar()
    return owner


def page(
    tx: Tx,
    *,
    owners: Collection[str] | None = None,
    states: Collection[SessionState] | None = None,
    kind: SessionKind | None = None,
    before: str | None = None,
    id_prefix: str | None = None,
    limit: int = 100,
) -> list[Session]:
    """Return at most `limit` sessions, newest first.

    Args:
        owners: Owners of the sessions; None: all.
        kind: Kind of the sessions; None: any.
        before: Id of the last session of the previous page; None: the first page.
    """
    query = _SELECT.where(*starts_with(sessions.c.id, id_prefix))
    if owners is not None:
        query = query.where(sessions.c.owner.in_(owners))
    if states is not None:
        query = query.where(sessions.c.state.in_(states))
        if SESSION.terminal.isdisjoint(states):
            query = query.where(_LIVE)
    if kind is not None:
        query = query.where(sessions.c.kind == kind)
    if before is not None:
        query = query.where(sessions.c.id < before)
    return fetch(tx, query.order_by(sessions.c.id.desc()).limit(limit))


def launchable(
    tx: Tx,
    limit: int,
    *,
    profiles: Collection[str] | None = None,
    other_than: Collection[str] | None = None,
    weights: Mapping[str, int] | None = None,
) -> list[Session]:
    """Return at most `limit` sessions that need a driver and have none.

    Owners take turns: owners with fewer drivers for their weights come first, then older sessions.

    A session whose driver was lost needs a new driver only when a statement waits in it, or when a
    streaming query is to run in it.

    Args:
        profiles: Only sessions with these profiles; None: with any profile.
        other_than: Only sessions with none of these profiles.
        weights: Weights of owners; 1 for all others.
    """
    place_in_turn: ColumnElement[Any] = func.coalesce(
        _drivers.c.number, 0
    ) + func.row_number().over(partition_by=sessions.c.owner, order_by=sessions.c.id)
    if weights:
        weight = case(weights, value=sessions.c.owner, else_=1)
        place_in_turn = cast(place_in_turn, Float) / weight
    query = _SELECT.outerjoin(_drivers, _drivers.c.owner == sessions.c.owner).where(*_LAUNCHABLE)
    if profiles is not None:
        query = query.where(sessions.c.profile.in_(profiles))
    if other_than is not None:
        query = query.where(sessions.c.profile.not_in(other_than))
    return fetch(tx, query.order_by(place_in_turn, sessions.c.id).limit(limit))


def list_launching_owners(tx: Tx, profiles: Collection[str]) -> list[str]:
    """Return the owners of sessions with these profiles that need a driver and have none."""
    query = select(sessions.c.owner).where(*_LAUNCHABLE, sessions.c.profile.in_(profiles))
    return list(tx.execute(query.distinct()).scalars())


def find_ended(tx: Tx, session_ids: Collection[str]) -> list[str]:
    """Return those of the sessions that have ended."""
    query = select(sessions.c.id).where(
        sessions.c.id.in_(session_ids), sessions.c.ended_at.is_not(None)
    )
    return list(tx.execute(query).scalars())


def find_existing(tx: Tx, session_ids: Collection[str]) -> list[str]:
    """Return those of the sessions that the store has, ended or not."""
    query = select(sessions.c.id).where(sessions.c.id.in_(session_ids))
    return list(tx.execute(query).scalars())


def live(tx: Tx, *, launched_by: str | None = None) -> list[Session]:
    """Return the sessions that have not ended, oldest first.

    Args:
        launched_by: Only sessions whose driver this node launched; None: all.
    """
    query = select_live().order_by(sessions.c.id)
    if launched_by is not None:
        query = query.where(sessions.c.launched_by == launched_by)
    return fetch(tx, query)


def select_live() -> Select[Any]:
    """Return the query for the sessions that have not ended."""
    return _SELECT.where(_LIVE)


def select_leased() -> Select[Any]:
    """Return the query for the live sessions that have a lease, expired or not."""
    return select_live().where(sessions.c.lease_until.is_not(None))


def set_handle(tx: Tx, lease: DriverLease, handle: dict[str, Any]) -> bool:
    """Store the handle by which the launcher finds the driver process.

    Return False if a takeover has raised the epoch, or if the session has ended.
    """
    current = (sessions.c.id == lease.session_id, sessions.c.epoch == lease.epoch, _LIVE)
    return tx.execute(update(sessions).where(*current).values(handle=handle)).rowcount > 0


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
    """Change the state of a session, if the lifecycle allows it from the current state.

    Args:
        epoch: Apply the change only if this is the current epoch; None: in any epoch.
        failure: Why the session failed.
        driver: The report of the driver in `hello`.
        detail: Detail of the event.
        lease_seconds: Length of a new lease; None: the lease stays as it is.
        lost: Descriptions of the state that the recovery could not restore.

    Returns:
        Whether the change was applied.
    """
    source = _lock_state(tx, session_id, epoch)
    if source is None:
        return False
    values = _values_on_entry(target, lease_seconds)
    optional = {"failure": failure, "driver": driver, "lost": lost}
    values |= {name: value for name, value in optional.items() if value is not None}
    applied = _TRANSITIONS.apply(
        tx, session_id, source, target, actor=actor, values=values, detail=detail, failure=failure
    )
    if applied and target in SESSION.terminal:
        discard_snapshot(tx, session_id)
        remove_hook_calls(tx, session_id)
        results.mark_held_gone(tx, session_id, _REASONS[target])
    if applied:
        tx.wake(session_topic(session_id))
    return applied


def _values_on_entry(target: SessionState, lease_seconds: float | None) -> dict[str, Any]:
    """Return the columns that change when a session enters a state."""
    values: dict[str, Any] = {}
    if target is SessionState.RUNNING:
        values["started_at"] = func.coalesce(sessions.c.started_at, clock())
        values["last_update_time"] = clock()
        values["starts"] = 0
    if target is SessionState.CLOSING:
        values["closing_since"] = clock()
    if target in SESSION.terminal:
        values.update(lease_until=None, fenced_driver=None, flight_secret=None)
    elif lease_seconds is not None:
        values["lease_until"] = clock(lease_seconds)
    return values


def move_link(tx: Tx, lease: DriverLease, process: str) -> None:
    """Record which process answers the polls of a driver, which needs the wake-ups."""
    tx.execute(
        update(sessions)
        .where(sessions.c.id == lease.session_id, sessions.c.epoch == lease.epoch)
        .values(link_process=process)
    )


def list_to_close(tx: Tx, rule: CloseRule, limit: int) -> list[Session]:
    """Return at most `limit` sessions that a rule closes."""
    query = _SELECT.where(_LIVE, *rule.conditions)
    return fetch(tx, query.order_by(sessions.c.id).limit(limit))


def must_close(tx: Tx, rule: CloseRule, session_id: str) -> bool:
    """Return whether a rule closes a session."""
    query = select(sessions.c.id).where(_LIVE, *rule.conditions, sessions.c.id == session_id)
    return tx.execute(query).first() is not None


def lock(tx: Tx, session_id: str) -> None:
    """Lock a session. No other transaction changes it, or submits to it, until this one ends."""
    tx.execute(select(sessions.c.id).where(sessions.c.id == session_id).with_for_update())


def lock_all(tx: Tx, session_ids: Collection[str]) -> None:
    """Lock several sessions as `lock` does, in the order of their ids.

    Two transactions that lock the same sessions in different orders would wait for each other.
    """
    query = select(sessions.c.id).where(sessions.c.id.in_(session_ids))
    tx.execute(query.order_by(sessions.c.id).with_for_update())


def token_hash(tx: Tx, lease: DriverLease) -> str | None:
    """Return the hash of the token that is valid for this lease, or None if the lease is lost."""
    query = select(sessions.c.token_hash)
    digest: str | None = tx.execute(
        query.where(sessions.c.id == lease.session_id, sessions.c.epoch == lease.epoch)
    ).scalar_one_or_none()
    return digest


def fetch(tx: Tx, query: Select[Any]) -> list[Session]:
    """Return the sessions that a query of `select_live` or `select_leased` selects."""
    return [row_to_session(row) for row in tx.execute(query).mappings()]


def _lock_state(tx: Tx, session_id: str, epoch: int | None) -> SessionState | None:
    """Lock a session and return its state; None if it does not exist or has another epoch."""
    query = select(sessions.c.state).where(sessions.c.id == session_id).with_for_update()
    if epoch is not None:
        query = query.where(sessions.c.epoch == epoch)
    state: SessionState | None = tx.execute(query).scalar_one_or_none()
    return state


_NAMES = select(sessions.c.id, sessions.c.name).where(
    sessions.c.id.in_(bindparam("sessions", expanding=True)), sessions.c.name.is_not(None)
)


def find_names(tx: Tx, session_ids: Collection[str]) -> dict[str, str]:
    """Return the names of those of the sessions that have one, by id."""
    return {row.id: row.name for row in tx.execute(_NAMES, {"sessions": [*session_ids]})}


def find_conf(tx: Tx, session_ids: Collection[str]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the profile and the configuration of sessions, by id."""
    query = select(sessions.c.id, sessions.c.profile, sessions.c.conf)
    rows = tx.execute(query.where(sessions.c.id.in_(session_ids)))
    return {row.id: (row.profile, row.conf) for row in rows}


_FIND = select(sessions.c.id).where(
    OPEN_POOL, sessions.c.owner == bindparam("caller"), sessions.c.profile == bindparam("wanted")
)


def find_open_pool(tx: Tx, owner: str, profile: str) -> str | None:
    """Return the id of the pool session that accepts statements, or None if there is none."""
    session_id: str | None = tx.execute(_FIND, {"caller": owner, "wanted": profile}).scalar()
    return session_id
