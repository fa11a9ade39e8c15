"""How statements change their state: claimed, told about by drivers, cancelled, ended, run again.

Every change is one compare-and-set from the states that may lead there, with its event.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Float, Row, Update, and_, bindparam, exists, func, or_, select, update

from headrace.errors import CommitInDoubt, Committing, StatementTimeout
from headrace.model.failure import Failure
from headrace.model.lifecycle import (
    IN_FLIGHT,
    STATEMENT,
    SessionState,
    StatementState,
    TransactionState,
)
from headrace.model.result import ResultReport
from headrace.model.session import SessionKind
from headrace.model.statement import CancelReason, Statement
from headrace.model.transaction import Transaction
from headrace.store import events, pending_hook_calls, results, transactions
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.locks import lock_owned_statement, lock_statement
from headrace.store.notifications import session_topic, statement_topic
from headrace.store.tables import sessions, statements

_ENTITY = "statement"
_LIVE = statements.c.ended_at.is_(None)

# Changes that a session's driver makes itself and need not be told of.
_DRIVERS_OWN = {StatementState.LAUNCHED, StatementState.RUNNING}

# The lock makes claims of one session take turns, and a takeover wait for its end.
_LOCK_SESSION = (
    select(sessions.c.parallelism)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.epoch == bindparam("holder"),
        sessions.c.state == SessionState.RUNNING,
    )
    .with_for_update()
)


_SETTLED = (
    statements.c.id,
    statements.c.state,
    statements.c.cancel_reason,
    statements.c.is_query,
    statements.c.attempts,
)


_IN_DOUBT = (
    "Its table was being published: the next driver on that catalog, or `headrace recover`, finds"
    " out whether it is complete, and finishes or removes it."
)


def lock(tx: Tx, statement_id: str) -> StatementState | None:
    """The state, which nobody else changes until this transaction ends."""
    held = lock_statement(tx, statement_id)
    return None if held is None else held.state


def claim_next(tx: Tx, session_id: str, epoch: int, *, actor: str) -> Statement | None:
    """The session's oldest waiting statement, now `launched` for the driver of this epoch.

    Queries run beside each other, as many as the session's parallelism allows; anything else runs
    alone, and nothing overtakes it. None when there is nothing to claim now, or when the session
    does not run or has another epoch.
    """
    names = {"session": session_id, "holder": epoch}
    lock_statement = tx.execute(_LOCK_SESSION, names).one_or_none()
    if lock_statement is None:
        return None
    row = (
        tx.execute(_claim(), names | {"most": lock_statement.parallelism}).mappings().one_or_none()
    )
    if row is None:
        return None
    source, target = StatementState.WAITING, StatementState.LAUNCHED
    record(tx, row["id"], session_id, source, target, actor=actor)
    return Statement(**row, result=None)


def transition(
    tx: Tx,
    statement_id: str,
    target: StatementState,
    *,
    actor: str,
    session_id: str | None = None,
    epoch: int | None = None,
    failure: Failure | None = None,
    result: ResultReport | None = None,
    result_seconds: float | None = None,
    detail: dict[str, Any] | None = None,
    ran_seconds: float | None = None,
) -> bool:
    """Change the state, when the lifecycle allows it; returns whether it landed.

    With `session_id`, only when it is that session's; with `epoch`, only while that driver has it
    (for `launched`: the driver that gets it). A `result` is readable from then on, and kept for
    `result_seconds`. An end that tells `ran_seconds` stands for its beginning too.
    """
    of = None if target is StatementState.LAUNCHED else epoch
    held = (
        lock_statement(tx, statement_id)
        if of is None
        else lock_owned_statement(tx, statement_id, of)
    )
    if held is None or session_id not in {None, held.session_id}:
        return False
    source = held.state
    if not STATEMENT.allows(source, target):
        return False
    ran: dict[str, Any] = {"epoch": epoch, "failure": failure, "ran_seconds": ran_seconds}
    if not _change(tx, statement_id, source, target, **ran):
        return False
    if result is not None:
        results.insert(tx, statement_id, result, _stated(result_seconds))
    if ran_seconds is not None and source is StatementState.LAUNCHED:
        running, ago = StatementState.RUNNING, ran_seconds
        events.append(tx, _ENTITY, statement_id, source, running, actor=actor, seconds_ago=ago)
        source = running
    told: dict[str, Any] = {"actor": actor, "detail": detail, "failure": failure}
    record(tx, statement_id, held.session_id, source, target, **told)
    return True


def _stated(result_seconds: float | None) -> float:
    if result_seconds is None:
        raise ValueError("a result is kept for a stated time")
    return result_seconds


def request_cancel(
    tx: Tx,
    statement_id: str,
    *,
    actor: str,
    reason: CancelReason = CancelReason.ASKED,
    force: bool = False,
) -> StatementState | None:
    """Ask for a cancel: a waiting statement is cancelled at once, one in hand is `cancelling`.

    The first reason holds; force may be added later. Returns the state after that (a terminal one
    is left as it is), or None when there is no such statement. Raises Committing for one whose
    table is being published, or may be.
    """
    held = lock_statement(tx, statement_id)
    if held is None:
        return None
    source: StatementState = held.state
    waiting = source is StatementState.WAITING
    if source in STATEMENT.live and transactions.is_past_cancelling(tx, statement_id, source):
        raise Committing(
            f"Statement {statement_id} cannot be cancelled any more: its table is being published."
        )
    target = StatementState.CANCELLED if waiting else StatementState.CANCELLING
    asked = update(statements).where(statements.c.id == statement_id)
    if source is StatementState.CANCELLING and force:
        tx.execute(asked.values(cancel_forced=True))
    if not STATEMENT.allows(source, target):
        return source
    tx.execute(asked.values(cancel_requested_at=clock(), cancel_reason=reason, cancel_forced=force))
    _change(tx, statement_id, source, target)
    detail = {"reason": reason}
    record(tx, statement_id, held.session_id, source, target, actor=actor, detail=detail)
    return target


def set_outcome_notes(tx: Tx, statement_id: str, *, atomic: bool | None, note: str | None) -> None:
    """Keep what there is to know of how a statement ended."""
    told = update(statements).where(statements.c.id == statement_id)
    tx.execute(told.values(atomic=atomic, note=note))


def end_all_statements(
    tx: Tx,
    session_id: str,
    *,
    actor: str,
    failure: Failure,
    waiting: Failure | None = None,
) -> int:
    """End everything of a session: `failed`, or as cancelled where a cancel was asked for.

    Statements that were waiting get the failure `waiting`, if given; those whose tables were being
    published say so. Returns how many ended.
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
        if transactions.in_doubt(tx, row.id):
            known = _doubt(failure)
        elif row.state is StatementState.WAITING:
            known = waiting or failure
        elif row.state is StatementState.CANCELLING:
            target, known = outcome_of_cancel(row.cancel_reason)
        _change(tx, row.id, row.state, target, failure=known)
        record(tx, row.id, session_id, row.state, target, actor=actor, failure=known)
    return len(rows)


def resolve_lost_statements(
    tx: Tx, session_id: str, *, actor: str, failure: Failure, max_attempts: int
) -> None:
    """Decide on what a driver had in hand that is gone for certain.

    What can change nothing waits for another driver, unless it has been tried `max_attempts` times,
    and so does a table that can be rolled back. One that was being published waits in any case:
    the next driver finishes it. The rest is `failed`, or as cancelled where a cancel was asked for;
    the next driver tells the hooks of it.
    """
    query = (
        select(*_SETTLED)
        .where(
            statements.c.session_id == session_id, _LIVE, statements.c.state.in_(sorted(IN_FLIGHT))
        )
        .order_by(statements.c.ordinal)
        .with_for_update()
    )
    ended = []
    for row in tx.execute(query).all():
        target: StatementState = StatementState.FAILED
        known: Failure | None = failure
        begun = None if row.is_query else transactions.live(tx, row.id)
        in_doubt = begun is not None and begun.in_doubt
        if row.state is StatementState.CANCELLING and not in_doubt:
            target, known = outcome_of_cancel(row.cancel_reason)
        elif row.state is not StatementState.CANCELLING and _goes_on(row, begun, max_attempts):
            target, known = StatementState.WAITING, None
        elif in_doubt:
            known = _doubt(failure)
        _change(tx, row.id, row.state, target, failure=known)
        detail = {"reason": failure.message} if target is StatementState.WAITING else None
        record(tx, row.id, session_id, row.state, target, actor=actor, failure=known, detail=detail)
        if target is not StatementState.WAITING:
            ended.append(row.id)
    pending_hook_calls.add(tx, session_id, ended)


def _doubt(failure: Failure) -> Failure:
    return Failure.of(CommitInDoubt(f"{failure.message} {_IN_DOUBT}"))


def _goes_on(row: Row[Any], begun: Transaction | None, max_attempts: int) -> bool:
    """Whether another driver takes up a statement whose driver was lost."""
    if row.is_query:
        return bool(row.attempts < max_attempts)
    if begun is None:
        return False
    return begun.state is TransactionState.COMMITTING or row.attempts < max_attempts


def outcome_of_cancel(reason: CancelReason | None) -> tuple[StatementState, Failure | None]:
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


def record(
    tx: Tx,
    statement_id: str,
    session_id: str,
    source: StatementState | None,
    target: StatementState,
    **facts: Any,
) -> None:
    """Append the event of a change, and wake who waits for it."""
    events.append(tx, _ENTITY, statement_id, source, target, **facts)
    if target in STATEMENT.terminal:
        tx.wake(statement_topic(statement_id))
    if target not in _DRIVERS_OWN:
        tx.wake(session_topic(session_id))


def _entering(target: StatementState, *, has_run: bool = False) -> dict[str, Any]:
    """What changes with the state; `has_run`: the parameter `offset` leads to its beginning."""
    values: dict[str, Any] = {"state": target, "failure": bindparam("reason")}
    if target is StatementState.LAUNCHED:
        values["launched_at"] = clock()
        values["epoch"] = bindparam("holder")
        values["attempts"] = statements.c.attempts + 1
    elif target is StatementState.WAITING:
        values.update(launched_at=None, started_at=None, epoch=None, progress=None)
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
    oldest = (
        select(statements.c.id)
        .where(*mine, statements.c.state == StatementState.WAITING)
        .order_by(statements.c.ordinal)
        .limit(1)
    )
    other = statements.alias("other")
    in_flight = (
        other.c.session_id == bindparam("session"),
        other.c.ended_at.is_(None),
        other.c.state.in_(sorted(IN_FLIGHT)),
    )
    nothing = ~exists().where(*in_flight)
    no_barrier = ~exists().where(*in_flight, other.c.is_query.is_(False))
    count = select(func.count()).select_from(other).where(*in_flight).scalar_subquery()
    claimed = update(statements).where(
        statements.c.id == oldest.scalar_subquery(),
        statements.c.state == StatementState.WAITING,
        # One of a node's own keeps its turn: what follows it waits.
        statements.c.kind != SessionKind.LOCAL,
        or_(nothing, and_(statements.c.is_query, no_barrier, count < bindparam("most"))),
    )
    values = {**_entering(StatementState.LAUNCHED), "failure": None}
    return claimed.values(values).returning(*statements.c)
