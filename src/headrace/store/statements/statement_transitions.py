"""State transitions of statements: claims, reports of drivers, cancels, ends and retries.

Every transition is one compare-and-set, with its event.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import RowMapping, bindparam, select, update

from headrace.errors import CommitInDoubt, Committing, StatementTimeout
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.result import ResultReport
from headrace.model.session import DriverLease, SessionKind
from headrace.model.statement import CancelReason, Progress, Statement, StatementEnd
from headrace.store import events, transactions
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import session_topic, statement_topic
from headrace.store.records import row_to_statement
from headrace.store.statements import results, statement_queue
from headrace.store.statements.limits import Limit, Turn, find_turn, record_turn
from headrace.store.statements.locks import LockedStatement, lock_owned_statement, lock_statement
from headrace.store.statements.statement_queries import (
    LOCK_CLAIMING_SESSION,
    claim_first,
    update_state,
)
from headrace.store.streams import stream_transitions, views
from headrace.store.tables import statements

_LIVE = statements.c.ended_at.is_(None)

# A driver makes these changes itself, so they do not wake it.

_IN_DOUBT = (
    "The commit of its table is in doubt. The next driver on that catalog finishes the table or"
    " removes it. To start such a driver now, run `headrace recover`."
)


def lock(tx: Tx, statement_id: str) -> StatementState | None:
    """Lock a statement until the transaction ends. Return its state, or None if there is none."""
    statement = lock_statement(tx, statement_id)
    return None if statement is None else statement.state


class Claim(NamedTuple):
    """A statement that a driver has claimed, and what the session says about its execution."""

    statement: Statement
    in_pool: bool
    """Whether the statement runs in a Spark session of its own."""
    parallelism: int
    """Largest number of statements that run at once in its session."""
    results_location: str | None
    """Where the driver writes stored results."""


def claim_next(
    tx: Tx,
    lease: DriverLease,
    limit: Limit | None = None,
    *,
    may_have_effects: bool = True,
    at_once: bool = True,
    opens_connections: bool = True,
) -> Claim | None:
    """Claim the first statement in the queue of a session for its driver.

    Queries run beside other queries, up to the session's parallelism. Any other statement runs
    alone, and no statement overtakes it. So does a query whose driver was lost: it may have been
    the cause. In a pool session, all statements run beside each other.

    Args:
        limit: Limit on statements in flight.
        may_have_effects: Whether the statement may have effects that cannot be rolled back from
            the claim on. Otherwise the driver announces them, and `note_effects` stores that.
        at_once: Whether the driver can run queries of the session at once. It always can those of a
            pool session.
        opens_connections: Whether the driver can run the statements of connections.

    Returns:
        The claim of the statement, which is now `launched`. None if no statement can be claimed
        now, if the session is not running, if the statement has another owner than the session, or
        if the lease is lost.
    """
    names = {"session": lease.session_id, "lease_epoch": lease.epoch}
    session = tx.execute(LOCK_CLAIMING_SESSION, names).one_or_none()
    if session is None:
        return None
    if session.kind is SessionKind.BATCH and statement_queue.is_stopped(tx, lease.session_id):
        return None
    turn = Turn(session.owner, None) if limit is None else find_turn(tx, limit, session.owner)
    if turn is None:
        return None
    values = {
        "max_in_flight": session.parallelism if at_once or session.pool else 1,
        "is_pool": session.pool,
        "session_owner": session.owner,
        "has_effects": may_have_effects,
        "opens_connections": opens_connections,
    }
    claim = tx.execute(claim_first(), names | values)
    row = claim.mappings().one_or_none()
    if row is None:
        return None
    record_turn(tx, turn)
    statement = row_to_statement(row)
    source, target = StatementState.WAITING, StatementState.LAUNCHED
    record(
        tx, statement.id, lease.session_id, source, target, actor=lease.actor, wakes_driver=False
    )
    return Claim(statement, session.pool, session.parallelism, session.results_location)


def transition(
    tx: Tx,
    statement_id: str,
    target: StatementState,
    *,
    actor: str,
    lease: DriverLease | None = None,
    failure: Failure | None = None,
    result: ResultReport | None = None,
    result_seconds: float | None = None,
    detail: dict[str, Any] | None = None,
    ran_seconds: float | None = None,
    progress: Progress | None = None,
    locked: LockedStatement | None = None,
) -> bool:
    """Change the state of a statement, if the lifecycle allows it from the current state.

    Args:
        lease: Apply the change only while this driver owns the statement. For `launched`: the
            driver that will own it. None: whether or not a driver owns it.
        failure: Why the statement failed.
        result: A result, readable from the commit of this change on.
        result_seconds: How long the result is kept; required with `result`.
        detail: Detail of the event.
        ran_seconds: Time since the start of the execution. If the start was not reported, the event
            of the start is appended too.
        progress: Progress after the last task.
        locked: The statement, if the transaction has locked it for this lease already.

    Returns:
        Whether the change was applied.
    """
    statement = locked or _lock_for(tx, statement_id, target, lease)
    if statement is None or not STATEMENT.allows(statement.state, target):
        return False
    source = statement.state
    epoch = None if lease is None else lease.epoch
    changed = change_state(
        tx,
        statement_id,
        source,
        target,
        epoch=epoch,
        failure=failure,
        ran_seconds=ran_seconds,
        progress=progress,
    )
    if changed is None:
        return False
    if result is not None:
        if result_seconds is None:
            raise ValueError("a result needs result_seconds")
        results.insert(tx, statement_id, result, result_seconds, lease=lease)
    is_start, start = target is StatementState.RUNNING, None
    if ran_seconds is not None and source is StatementState.LAUNCHED and not is_start:
        start = events.EarlierChange(StatementState.RUNNING, changed["started_at"])
    record(
        tx,
        statement_id,
        statement.session_id,
        source,
        target,
        actor=actor,
        detail=detail,
        failure=failure,
        earlier=start,
        at=changed["started_at"] if is_start else None,
        wakes_driver=_concerns_driver(target, statement),
    )
    return True


def _concerns_driver(target: StatementState, statement: LockedStatement) -> bool:
    """Return whether the driver of the session may have something to do after a transition."""
    if target in STATEMENT.terminal:
        # A poll that is woken for nothing competes with the response to the client.
        return statement.may_be_followed
    return target not in STATEMENT.executing


def _lock_for(
    tx: Tx, statement_id: str, target: StatementState, lease: DriverLease | None
) -> LockedStatement | None:
    """Lock the statement of a transition. Return None if the lease does not permit the change."""
    if lease is None:
        return lock_statement(tx, statement_id)
    if target is not StatementState.LAUNCHED:
        return lock_owned_statement(tx, statement_id, lease)
    statement = lock_statement(tx, statement_id)
    if statement is None or statement.session_id != lease.session_id:
        return None
    return statement


def note_effects(tx: Tx, statement_id: str) -> None:
    """Note that a statement may have effects that cannot be rolled back.

    The caller has locked the statement.
    """
    change = update(statements).where(statements.c.id == statement_id)
    tx.execute(change.values(may_have_effects=True))


def request_cancel(
    tx: Tx,
    statement_id: str,
    *,
    actor: str,
    reason: CancelReason = CancelReason.REQUESTED,
    force: bool = False,
) -> StatementState | None:
    """Request the cancel of a statement.

    A waiting statement becomes `cancelled`, a statement in flight `cancelling`. Later requests do
    not change the reason, but can add `force`.

    Returns:
        The state after the request; a statement that has ended keeps its state. None if there is
        no such statement.

    Raises:
        Committing: The statement's table is being published, or may be.
    """
    statement = lock_statement(tx, statement_id)
    if statement is None:
        return None
    source = statement.state
    if source in STATEMENT.live and transactions.is_past_cancelling(tx, statement_id, source):
        raise Committing(
            f"Statement {statement_id} is publishing its table and can no longer be cancelled."
        )
    is_queued = source in STATEMENT.queued
    target = StatementState.CANCELLED if is_queued else StatementState.CANCELLING
    request = update(statements).where(statements.c.id == statement_id)
    if source is StatementState.CANCELLING and force:
        tx.execute(request.values(cancel_forced=True))
    if not STATEMENT.allows(source, target):
        return source
    tx.execute(
        request.values(cancel_requested_at=clock(), cancel_reason=reason, cancel_forced=force)
    )
    change_state(tx, statement_id, source, target)
    detail = {"reason": reason}
    record(tx, statement_id, statement.session_id, source, target, actor=actor, detail=detail)
    return target


def set_outcome(
    tx: Tx,
    statement_id: str,
    *,
    atomic: bool | None = None,
    note: str | None = None,
    rows_written: int | None = None,
) -> None:
    """Store what is known about a statement that has ended. A value of None changes nothing.

    Args:
        atomic: Whether all rows that the statement has written appeared, or none.
        note: A remark on the outcome.
        rows_written: Number of rows that an INSERT or a CTAS has written.
    """
    values = {"atomic": atomic, "note": note, "rows_written": rows_written}
    known = {name: value for name, value in values.items() if value is not None}
    if known:
        tx.execute(update(statements).where(statements.c.id == statement_id).values(known))


def end_all_statements(
    tx: Tx,
    session_id: str,
    *,
    actor: str,
    failure: Failure,
    waiting: Failure | None = None,
) -> int:
    """End every live statement of a session.

    Statements become `failed`, except those with a requested cancel. A statement whose commit is in
    doubt fails with `commit_in_doubt`.

    Args:
        failure: Failure of the statements.
        waiting: Failure of statements that no driver had claimed; None: `failure`.

    Returns:
        The number of statements that ended.
    """
    query = (
        select(statements.c.id, statements.c.state, statements.c.cancel_reason)
        .where(statements.c.session_id == session_id, _LIVE)
        .order_by(statements.c.ordinal)
        .with_for_update()
    )
    count = statement_queue.fail_all(tx, session_id, actor=actor, failure=waiting or failure)
    rows = tx.execute(query).all()
    for row in rows:
        target: StatementState = StatementState.FAILED
        reason: Failure | None = failure
        if transactions.in_doubt(tx, row.id):
            reason = commit_in_doubt(failure)
        elif row.state in STATEMENT.queued:
            reason = waiting or failure
        elif row.state is StatementState.CANCELLING:
            target, reason = outcome_of_cancel(row.cancel_reason)
        change_state(tx, row.id, row.state, target, failure=reason)
        record(tx, row.id, session_id, row.state, target, actor=actor, failure=reason)
    return count + len(rows)


def commit_in_doubt(failure: Failure) -> Failure:
    """Return the failure of a statement whose table may be visible."""
    return Failure.of(CommitInDoubt(f"{failure.message} {_IN_DOUBT}"))


def outcome_of_cancel(reason: CancelReason | None) -> tuple[StatementState, Failure | None]:
    """Return the terminal state and the failure of a statement that a cancel has stopped."""
    if reason is CancelReason.TIMEOUT:
        error = StatementTimeout("The statement ran for longer than its timeout and was cancelled.")
        return StatementState.TIMEOUT, Failure.of(error)
    return StatementState.CANCELLED, None


def record(
    tx: Tx,
    statement_id: str,
    session_id: str,
    source: StatementState | None,
    target: StatementState,
    *,
    actor: str,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
    earlier: events.EarlierChange | None = None,
    at: datetime | None = None,
    wakes_driver: bool = True,
) -> None:
    """Append the event of a transition, and wake its subscribers after the commit.

    Args:
        earlier, at: See `events.append`.
        wakes_driver: Whether the driver of the session may have something to do now.
    """
    events.append(
        tx,
        STATEMENT.entity,
        statement_id,
        source,
        target,
        actor=actor,
        detail=detail,
        failure=failure,
        earlier=earlier,
        at=at,
    )
    if target in STATEMENT.terminal:
        tx.wake(statement_topic(statement_id))
        if target is not StatementState.SUCCESS:
            stream_transitions.end_with_statement(
                tx, statement_id, target, actor=actor, failure=failure
            )
            views.end_unfinished(tx, statement_id, actor=actor)
    if wakes_driver:
        tx.wake(session_topic(session_id))


def change_state(
    tx: Tx,
    statement_id: str,
    source: StatementState,
    target: StatementState,
    *,
    epoch: int | None = None,
    failure: Failure | None = None,
    ran_seconds: float | None = None,
    progress: Progress | None = None,
) -> RowMapping | None:
    """Write a new state. Return END_COLUMNS; None if the state is not `source` any more."""
    names: dict[str, Any] = {"statement": statement_id, "source": source, "lease_epoch": epoch}
    names["new_failure"] = failure
    if ran_seconds is not None:
        names["offset"] = -ran_seconds
    if progress is not None:
        names["last_progress"] = progress
    change = update_state(
        target, has_run=ran_seconds is not None, has_progress=progress is not None
    )
    changed = tx.execute(change, names).mappings().one_or_none()
    if changed is not None and target in STATEMENT.terminal:
        code = None if failure is None else failure.code
        tx.ends.append(StatementEnd(outcome=target, code=code, **changed))
    return changed


_SAVE = (
    update(statements)
    .where(
        statements.c.id == bindparam("statement"),
        statements.c.session_id == bindparam("session"),
        statements.c.epoch == bindparam("lease_epoch"),
        statements.c.state.in_(sorted(STATEMENT.in_flight)),
    )
    .values(progress=bindparam("reported"))
)


def save_progress(tx: Tx, lease: DriverLease, progress: dict[str, Progress]) -> int:
    """Save the progress of a driver's statements, by statement id.

    Return the number of statements whose progress was saved. A statement that the driver does not
    own, or that is no longer in flight, is ignored.
    """
    names = {"session": lease.session_id, "lease_epoch": lease.epoch}
    return sum(
        tx.execute(_SAVE, {**names, "statement": statement_id, "reported": report}).rowcount
        for statement_id, report in progress.items()
    )
