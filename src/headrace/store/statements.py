"""Statements in the store: submitted, claimed, cancelled and ended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import Float, Select, Update, bindparam, exists, func, or_, select, update

from headrace.errors import SessionEnded, SessionNotFound, StatementTimeout
from headrace.model.failure import Failure
from headrace.model.lifecycle import IN_HAND, SESSION, STATEMENT, SessionState, StatementState
from headrace.model.result import ResultReport
from headrace.model.session import SessionKind
from headrace.model.statement import CancelReason, NewStatement, Statement
from headrace.store import events, results
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.signals import session_topic, statement_topic
from headrace.store.tables import results as results_table
from headrace.store.tables import sessions, statements

_ENTITY = "statement"
_LIVE = statements.c.ended_at.is_(None)
_TAKING = sorted(SESSION.live - {SessionState.CLOSING})

_GIVEN = [field.name for field in fields(NewStatement)]
_UNTOUCHED: dict[str, Any] = {
    "attempts": 0,
    "cancel_forced": False,
    **dict.fromkeys(
        field.name
        for field in fields(Statement)
        if field.name
        not in {*_GIVEN, "attempts", "cancel_forced", "ordinal", "state", "created_at"}
    ),
}
"""What a statement is before anybody has taken it up."""

# Changes that a session's driver makes itself and need not be told of.
_DRIVERS_OWN = {StatementState.LAUNCHED, StatementState.RUNNING}

# SQL that every statement runs is built once: building it takes longer than running it.
_SELECT = select(
    *statements.c, *(column.label(f"result_{column.name}") for column in results.INFO_COLUMNS)
).outerjoin_from(statements, results_table)
_GET = _SELECT.where(statements.c.id == bindparam("statement"))
_INSERT = (
    statements.insert()
    .values(attempts=0, cancel_forced=False, created_at=clock())
    .returning(statements.c.created_at)
)
_TAKE_ORDINAL = (
    update(sessions)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.state.in_(_TAKING),
        # A batch session is for one statement.
        or_(sessions.c.kind != SessionKind.BATCH, sessions.c.next_ordinal == 0),
    )
    .values(next_ordinal=sessions.c.next_ordinal + 1, last_used_at=clock())
    .returning(sessions.c.next_ordinal)
)
_LIVE_IDS = (
    select(statements.c.id)
    .where(statements.c.session_id == bindparam("session"), _LIVE)
    .order_by(statements.c.ordinal)
)
# The lock makes claims of one session take turns, and a takeover wait for its end.
_LOCK_SESSION = (
    select(sessions.c.id)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.epoch == bindparam("holder"),
        sessions.c.state == SessionState.RUNNING,
    )
    .with_for_update()
)


def insert(tx: Tx, new: NewStatement, *, who: str) -> Statement:
    """Make a statement that waits for its session's driver.

    Raises SessionNotFound, or SessionEnded when the session takes no more.
    """
    row = {name: getattr(new, name) for name in _GIVEN}
    row.update(ordinal=_next_ordinal(tx, new.session_id), state=STATEMENT.initial)
    created_at = tx.execute(_INSERT, row).scalar_one()
    _record(tx, new.id, new.session_id, None, STATEMENT.initial, who=who)
    return Statement(**_UNTOUCHED | row, created_at=created_at)


def _next_ordinal(tx: Tx, session_id: str) -> int:
    following: int | None = tx.execute(_TAKE_ORDINAL, {"session": session_id}).scalar_one_or_none()
    if following is not None:
        return following - 1
    query = select(sessions.c.state, sessions.c.kind).where(sessions.c.id == session_id)
    known = tx.execute(query).one_or_none()
    if known is None:
        raise SessionNotFound(f"There is no session {session_id}.")
    if known.state in _TAKING:
        raise SessionEnded(f"Session {session_id} is a batch session: it takes one statement.")
    raise SessionEnded(f"Session {session_id} is {known.state} and takes no more statements.")


def get(tx: Tx, statement_id: str) -> Statement | None:
    """The statement of that id, with what is known of its result."""
    row = tx.execute(_GET, {"statement": statement_id}).one_or_none()
    return None if row is None else _statement(row)


def lock(tx: Tx, statement_id: str) -> StatementState | None:
    """The state, which nobody else changes until this transaction ends."""
    held = tx.execute(_lock(fenced=False), {"statement": statement_id}).one_or_none()
    return None if held is None else held.state


def page(
    tx: Tx,
    *,
    owner: str | None = None,
    session: str | None = None,
    states: Collection[StatementState] | None = None,
    before: str | None = None,
    limit: int = 100,
) -> list[Statement]:
    """At most `limit` statements, newest first; `before` is the id of the last one seen."""
    query = _SELECT
    if owner is not None:
        query = query.where(statements.c.owner == owner)
    if session is not None:
        query = query.where(statements.c.session_id == session)
    if states is not None:
        query = query.where(statements.c.state.in_(states))
        if STATEMENT.terminal.isdisjoint(states):
            query = query.where(_LIVE)
        elif STATEMENT.live.isdisjoint(states):
            query = query.where(statements.c.ended_at.is_not(None))
    if before is not None:
        query = query.where(statements.c.id < before)
    query = query.order_by(statements.c.id.desc()).limit(limit)
    return [_statement(row) for row in tx.execute(query)]


def live_ids(tx: Tx, session_id: str) -> list[str]:
    """The session's statements that have not ended, in order."""
    return list(tx.execute(_LIVE_IDS, {"session": session_id}).scalars())


def active_count(tx: Tx) -> int:
    """How many statements have not ended, in the whole store."""
    count: int = tx.execute(select(func.count()).select_from(statements).where(_LIVE)).scalar_one()
    return count


def claim_next(tx: Tx, session_id: str, epoch: int, *, who: str) -> Statement | None:
    """The session's oldest waiting statement, now `launched` for the driver of this epoch.

    None when there is none, when one is in hand, or when the session does not run or has another
    epoch.
    """
    names = {"session": session_id, "holder": epoch}
    if tx.execute(_LOCK_SESSION, names).one_or_none() is None:
        return None
    row = tx.execute(_claim(), names).mappings().one_or_none()
    if row is None:
        return None
    source, target = StatementState.WAITING, StatementState.LAUNCHED
    _record(tx, row["id"], session_id, source, target, who=who)
    return Statement(**row, result=None)


def transition(
    tx: Tx,
    statement_id: str,
    target: StatementState,
    *,
    who: str,
    session_id: str | None = None,
    epoch: int | None = None,
    failure: Failure | None = None,
    result: ResultReport | None = None,
    result_seconds: float | None = None,
    detail: dict[str, Any] | None = None,
    ran_seconds: float | None = None,
) -> bool:
    """Change the state, when the lifecycle allows it from where the statement is.

    With `session_id`, only when it is that session's; with `epoch`, only while that driver has it
    (for `launched`: the driver that gets it). A `result` becomes readable in the same transaction
    and is kept `result_seconds`. An end that tells how long the statement ran stands for its
    beginning too, where that was not told. Returns whether it landed.
    """
    fenced = epoch is not None and target is not StatementState.LAUNCHED
    names = {"statement": statement_id, "holder": epoch}
    held = tx.execute(_lock(fenced=fenced), names).one_or_none()
    if held is None or not STATEMENT.allows(held.state, target):
        return False
    if session_id not in {None, held.session_id}:
        return False
    source: StatementState = held.state
    change: dict[str, Any] = {"epoch": epoch, "failure": failure, "ran_seconds": ran_seconds}
    if not _change(tx, statement_id, source, target, **change):
        return False
    if result is not None:
        if result_seconds is None:
            raise ValueError("a result is kept for a stated time")
        results.insert(tx, statement_id, result, result_seconds)
    if ran_seconds is not None and source is StatementState.LAUNCHED:
        running, ago = StatementState.RUNNING, ran_seconds
        events.append(tx, _ENTITY, statement_id, source, running, who=who, seconds_ago=ago)
        source = running
    _record(
        tx,
        statement_id,
        held.session_id,
        source,
        target,
        who=who,
        detail=detail,
        failure=failure,
    )
    return True


def request_cancel(
    tx: Tx,
    statement_id: str,
    *,
    who: str,
    reason: CancelReason = CancelReason.ASKED,
    force: bool = False,
) -> StatementState | None:
    """Ask for a cancel: a waiting statement is cancelled at once, one in hand is `cancelling`.

    The first reason holds; force may be added later. Returns the state after that (a terminal one
    is left as it is), or None when there is no such statement.
    """
    held = tx.execute(_lock(fenced=False), {"statement": statement_id}).one_or_none()
    if held is None:
        return None
    source: StatementState = held.state
    waiting = source is StatementState.WAITING
    target = StatementState.CANCELLED if waiting else StatementState.CANCELLING
    asked = update(statements).where(statements.c.id == statement_id)
    if source is StatementState.CANCELLING and force:
        tx.execute(asked.values(cancel_forced=True))
    if not STATEMENT.allows(source, target):
        return source
    tx.execute(asked.values(cancel_requested_at=clock(), cancel_reason=reason, cancel_forced=force))
    _change(tx, statement_id, source, target)
    detail = {"reason": reason}
    _record(tx, statement_id, held.session_id, source, target, who=who, detail=detail)
    return target


def end_all(
    tx: Tx,
    session_id: str,
    *,
    who: str,
    failure: Failure,
    waiting: Failure | None = None,
) -> int:
    """End everything of a session: `failed`, or as cancelled where a cancel was asked for.

    Statements that were waiting get the failure `waiting`, if given. Returns how many ended.
    """
    query = (
        select(statements.c.id, statements.c.state, statements.c.cancel_reason)
        .where(statements.c.session_id == session_id, _LIVE)
        .order_by(statements.c.ordinal)
        .with_for_update()
    )
    rows = tx.execute(query).all()
    for row in rows:
        target: StatementState = StatementState.FAILED
        known: Failure | None = failure
        if row.state is StatementState.WAITING:
            known = waiting or failure
        elif row.state is StatementState.CANCELLING:
            target, known = cancelled_as(row.cancel_reason)
        _change(tx, row.id, row.state, target, failure=known)
        _record(tx, row.id, session_id, row.state, target, who=who, failure=known)
    return len(rows)


def cancelled_as(reason: CancelReason | None) -> tuple[StatementState, Failure | None]:
    """How a statement ends whose cancel has stopped it."""
    if reason is CancelReason.TIMEOUT:
        failure = Failure.of(StatementTimeout("It ran for longer than its timeout."))
        return StatementState.TIMEOUT, failure
    return StatementState.CANCELLED, None


def _change(
    tx: Tx,
    statement_id: str,
    source: StatementState,
    target: StatementState,
    *,
    epoch: int | None = None,
    failure: Failure | None = None,
    ran_seconds: float | None = None,
) -> bool:
    names: dict[str, Any] = {"statement": statement_id, "source": source}
    names.update(holder=epoch, reason=failure)
    if ran_seconds is not None:
        names["offset"] = -ran_seconds
    change = _update(target, has_run=ran_seconds is not None)
    return tx.execute(change, names).rowcount > 0


def _record(
    tx: Tx,
    statement_id: str,
    session_id: str,
    source: StatementState | None,
    target: StatementState,
    **facts: Any,
) -> None:
    events.append(tx, _ENTITY, statement_id, source, target, **facts)
    if target in STATEMENT.terminal:
        tx.wake(statement_topic(statement_id))
    if target not in _DRIVERS_OWN:
        tx.wake(session_topic(session_id))


def _statement(row: Any) -> Statement:
    values = iter(row)
    known = {column.name: next(values) for column in statements.c}
    result = {column.name: next(values) for column in results.INFO_COLUMNS}
    return Statement(**known, result=results.info(result))


def _entering(target: StatementState, *, has_run: bool = False) -> dict[str, Any]:
    """What changes with the state; `has_run`: the parameter `offset` leads to its beginning."""
    values: dict[str, Any] = {"state": target, "failure": bindparam("reason")}
    if target is StatementState.LAUNCHED:
        values["launched_at"] = clock()
        values["epoch"] = bindparam("holder")
        values["attempts"] = statements.c.attempts + 1
    elif target is StatementState.WAITING:
        values.update(launched_at=None, started_at=None, epoch=None)
    elif has_run or target in {StatementState.RUNNING, StatementState.SUCCESS}:
        began = clock(bindparam("offset", type_=Float())) if has_run else clock()
        values["started_at"] = func.coalesce(statements.c.started_at, began)
    if target in STATEMENT.terminal:
        values["ended_at"] = clock()
    return values


@cache
def _update(target: StatementState, *, has_run: bool) -> Update:
    return (
        update(statements)
        .where(statements.c.id == bindparam("statement"), statements.c.state == bindparam("source"))
        .values(_entering(target, has_run=has_run))
    )


@cache
def _claim() -> Any:
    mine = (statements.c.session_id == bindparam("session"), _LIVE)
    in_hand = exists().where(*mine, statements.c.state.in_(sorted(IN_HAND)))
    oldest = (
        select(statements.c.id)
        .where(*mine, statements.c.state == StatementState.WAITING, ~in_hand)
        .order_by(statements.c.ordinal)
        .limit(1)
    )
    claimed = update(statements).where(
        statements.c.id == oldest.scalar_subquery(),
        statements.c.state == StatementState.WAITING,
        # One of a node's own keeps its turn: what follows it waits.
        statements.c.kind != SessionKind.LOCAL,
    )
    values = {**_entering(StatementState.LAUNCHED), "failure": None}
    return claimed.values(values).returning(*statements.c)


@cache
def _lock(*, fenced: bool) -> Select[Any]:
    """The state of a statement, which nobody else changes until this transaction ends."""
    query = (
        select(statements.c.state, statements.c.session_id)
        .where(statements.c.id == bindparam("statement"))
        .with_for_update()
    )
    return query.where(statements.c.epoch == bindparam("holder")) if fenced else query
