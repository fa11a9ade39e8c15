"""What becomes of the statements in flight of a driver that is confirmed to be gone."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select

from headrace.model.failure import Failure
from headrace.model.lifecycle import IN_FLIGHT, StatementState, TransactionState
from headrace.model.statement import RETRIED
from headrace.model.transaction import Transaction
from headrace.store import pending_hook_calls, transactions
from headrace.store.database import Tx
from headrace.store.statement_transitions import (
    change_state,
    commit_in_doubt,
    outcome_of_cancel,
    record,
)
from headrace.store.tables import statements

COMMIT_ATTEMPTS = 5
"""Number of drivers that try to finish the commit of a statement, before others may."""


def resolve(tx: Tx, session_id: str, *, actor: str, failure: Failure, max_attempts: int) -> None:
    """Resolve the statements in flight of a driver that is confirmed to be gone.

    - A statement that can have had no effect, a CTAS or another write that can be rolled back, or a
      statement on streams waits for another driver until it has had `max_attempts` attempts.
    - A write that was committing waits for the next driver to finish it, until it has had
      `COMMIT_ATTEMPTS`. Then it fails with `commit_in_doubt`, and any driver finishes the orphaned
      transaction.
    - A statement with a requested cancel ends as `cancelled` or `timeout`, or fails with
      `commit_in_doubt` if its table may be visible.
    - Any other statement fails.

    Statements that end get a pending hook call, which the next driver makes.
    """
    query = (
        select(
            statements.c.id,
            statements.c.state,
            statements.c.cancel_reason,
            statements.c.is_query,
            statements.c.command,
            statements.c.attempts,
            statements.c.may_have_effects,
        )
        .where(
            statements.c.session_id == session_id,
            statements.c.ended_at.is_(None),
            statements.c.state.in_(sorted(IN_FLIGHT)),
        )
        .order_by(statements.c.ordinal)
        .with_for_update()
    )
    ended = []
    for row in tx.execute(query).all():
        transaction = None if row.is_query else transactions.live(tx, row.id)
        target, reason = _outcome_of_loss(row, transaction, failure, max_attempts)
        detail = _describe_retry(row, failure) if target is StatementState.WAITING else None
        change_state(tx, row.id, row.state, target, failure=reason)
        record(
            tx, row.id, session_id, row.state, target, actor=actor, detail=detail, failure=reason
        )
        if target is not StatementState.WAITING:
            ended.append(row.id)
    pending_hook_calls.add(tx, session_id, ended)


def _describe_retry(row: Row[Any], failure: Failure) -> dict[str, Any]:
    """Return the detail of the event that lets a statement wait for another driver."""
    detail: dict[str, Any] = {"reason": failure.message}
    if not (row.is_query or row.may_have_effects):
        detail["effects"] = False
    return detail


def _outcome_of_loss(
    row: Row[Any], transaction: Transaction | None, failure: Failure, max_attempts: int
) -> tuple[StatementState, Failure | None]:
    """Return the next state and the failure of a statement whose driver was lost."""
    in_doubt = transaction is not None and transaction.in_doubt
    if row.state is StatementState.CANCELLING and not in_doubt:
        return outcome_of_cancel(row.cancel_reason)
    if row.state is not StatementState.CANCELLING and _can_retry(row, transaction, max_attempts):
        return StatementState.WAITING, None
    return StatementState.FAILED, commit_in_doubt(failure) if in_doubt else failure


def _can_retry(row: Row[Any], transaction: Transaction | None, max_attempts: int) -> bool:
    attempts_remain: bool = row.attempts < max_attempts
    if transaction is not None:
        # The next driver only has to publish the rows.
        may_publish = row.attempts < COMMIT_ATTEMPTS
        is_committing = transaction.state is TransactionState.COMMITTING
        return attempts_remain or (is_committing and may_publish)
    is_harmless = row.is_query or row.command in RETRIED or not row.may_have_effects
    return attempts_remain and is_harmless
