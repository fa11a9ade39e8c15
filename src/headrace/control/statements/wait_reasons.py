"""Why a statement waits, in words, derived from the store when a user asks."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.control.policy import Action, Caller, OwnedBy, may
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.statement import Statement, WaitCode, WaitingFor
from headrace.store.database import Database
from headrace.store.statements import wait_view
from headrace.store.statements.limits import Limit, Share
from headrace.store.statements.wait_view import LockView, QueueView
from headrace.text.readable import describe_count, describe_duration


class WaitReasons:
    """Finds out why statements wait, with one query for any number of statements."""

    def __init__(self, database: Database, running_limit: Limit) -> None:
        """Create it.

        Args:
            running_limit: The limit on statements in flight.
        """
        self._database = database
        self._limit = running_limit

    def find_all(
        self, caller: Caller, statements: Sequence[Statement]
    ) -> dict[str, tuple[int | None, WaitingFor | None]]:
        """Return the position in the queue of its session, from 1, and why it waits, by statement.

        The position is None for a statement that is not `waiting`, and the reason is None for one
        that waits for nothing. A statement whose state has changed since it was read may be
        missing.

        Args:
            caller: The reasons name no statement that the caller may not read.
            statements: Statements that `can_wait` and that the caller may read.
        """
        waiting = [each.id for each in statements if each.state is StatementState.WAITING]
        writing = [each.id for each in statements if each.state is not StatementState.WAITING]
        with self._database.read() as tx:
            counts_users = self._limit.is_set
            queues = (
                wait_view.read_queues(tx, waiting, counts_users=counts_users) if waiting else {}
            )
            locks = wait_view.read_locks(tx, writing) if writing else {}
            owners = {each.owner for each in statements if each.id in queues}
            shares = self._limit.shares_of(tx, owners) if counts_users and owners else {}
        found: dict[str, tuple[int | None, WaitingFor | None]] = {}
        for statement in statements:
            if (queue := queues.get(statement.id)) is not None:
                reason = self._explain(statement, queue, shares.get(statement.owner))
                found[statement.id] = queue.before + 1, reason
            elif (lock := locks.get(statement.id)) is not None:
                found[statement.id] = None, _explain_lock(caller, lock)
        return found

    def _explain(self, statement: Statement, queue: QueueView, share: Share | None) -> WaitingFor:
        if queue.session_state is not SessionState.RUNNING:
            return _explain_session(queue)
        code, blocker = WaitCode.CONNECTION, queue.connection_blocker
        text = f"It runs after the statement {blocker} of its connection."
        if blocker is None:
            code, text, blocker = self._explain_place(statement, queue, share)
        return WaitingFor(code=code, text=text, since=statement.waiting_since, statement_id=blocker)

    def _explain_place(
        self, statement: Statement, queue: QueueView, share: Share | None
    ) -> tuple[WaitCode, str, str | None]:
        """Return why a statement waits whose session has a driver."""
        if queue.before:
            others = describe_count(queue.before, "statement")
            return WaitCode.QUEUE, f"It is behind {others} of its session.", None
        in_flight = describe_count(queue.in_flight, "running statement")
        if queue.in_flight and not queue.pool:
            if queue.exclusive is not None:
                text = f"The statement {queue.exclusive} runs alone in the session."
                return WaitCode.EXCLUSIVE, text, queue.exclusive
            if statement.will_run_alone:
                text = f"It runs alone in its session, after {in_flight} of the session."
                return WaitCode.EXCLUSIVE, text, None
        if queue.in_flight >= queue.parallelism:
            text = f"Its session runs {queue.in_flight} of at most {queue.parallelism} at once."
            return WaitCode.PARALLELISM, text, None
        if limit := self._explain_limit(queue, share):
            return WaitCode.LIMIT, limit, None
        return WaitCode.DRIVER, "It is next: the driver of its session takes it.", None

    def _explain_limit(self, queue: QueueView, share: Share | None) -> str | None:
        limit = None if share is None else share.limit
        if share is not None and limit is not None and queue.owner_in_flight >= limit:
            used = f"Its owner runs {queue.owner_in_flight:,} of at most"
            return f"{used} {describe_count(limit, 'statement')} (setting {share.setting})."
        total = self._limit.total
        if total is not None and queue.all_in_flight >= total:
            used = f"All users together run {queue.all_in_flight:,} of at most"
            return (
                f"{used} {describe_count(total, 'statement')} (setting limits.running_statements)."
            )
        return None


def can_wait(statement: Statement) -> bool:
    """Return whether a statement may wait: in its queue, or in flight for a table."""
    if statement.state in STATEMENT.executing:
        return not statement.is_query
    return statement.state is StatementState.WAITING


def _explain_session(queue: QueueView) -> WaitingFor:
    """Return why a statement waits whose session has no driver."""
    code, since = WaitCode.SESSION_START, queue.created_at
    if queue.session_state is SessionState.STARTING:
        text = "Its session starts its driver"
        text += f", in attempt {queue.starts}." if queue.starts > 1 else "."
        since = queue.last_update_time or since
    elif queue.session_state is SessionState.RECOVERING:
        code, since = WaitCode.SESSION_RECOVERY, queue.last_update_time or since
        text = "Its session recovers, because its driver was lost: "
        text += (
            "the end of the lost driver is not confirmed yet."
            if queue.is_ending
            else "another driver starts."
        )
    elif queue.session_state is SessionState.NOT_STARTED:
        text = "Its session waits for a node that starts its driver."
        if queue.launches_before:
            text = f"It waits for a driver of profile `{queue.profile}`: "
            text += f"{queue.launches_before:,} ahead"
            if queue.first_launch is not None:
                seconds = int((queue.now - queue.first_launch).total_seconds())
                text += f", the first started {describe_duration(seconds)} ago"
            text += "."
    else:
        code, text = WaitCode.SESSION_CLOSING, "Its session closes, and cancels it."
    return WaitingFor(code=code, text=text, since=since)


def _explain_lock(caller: Caller, locks: LockView) -> WaitingFor | None:
    if locks.writer is not None:
        is_readable = may(caller, Action.READ, OwnedBy(locks.writer_owner))
        text = (
            f"It waits until the statement {locks.writer} has written to {locks.table}."
            if is_readable
            else "It waits until a statement of another owner has written to its table."
        )
        writer = locks.writer if is_readable else None
        return WaitingFor(
            code=WaitCode.WRITE_LOCK, text=text, since=locks.since, statement_id=writer
        )
    if locks.publisher is not None:
        is_readable = may(caller, Action.READ, OwnedBy(locks.publisher_owner))
        text = (
            f"It publishes its table after the statement {locks.publisher},"
            f" which publishes {locks.target}."
            if is_readable
            else "It publishes its table after a statement of another owner."
        )
        publisher = locks.publisher if is_readable else None
        return WaitingFor(code=WaitCode.TRANSACTION, text=text, since=None, statement_id=publisher)
    return None
