"""The plans and stages of statements, which a driver reports after their ends."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import bindparam, select

from headrace.model.execution import StatementExecution
from headrace.model.session import DriverLease
from headrace.store.database import Tx
from headrace.store.tables import statement_executions as table
from headrace.store.tables import statements
from headrace.store.upserts import build_for_dialects

_REPORTED = select(statements.c.id, bindparam("reported", type_=table.c.execution.type)).where(
    statements.c.id == bindparam("statement"),
    statements.c.session_id == bindparam("session"),
    statements.c.epoch == bindparam("lease_epoch"),
    statements.c.ended_at.is_not(None),
)
_SAVE = build_for_dialects(
    table,
    lambda new: (
        new.from_select(["statement_id", "execution"], _REPORTED)
        .on_conflict_do_nothing()
        .returning(table.c.statement_id)
    ),
)


def save(tx: Tx, lease: DriverLease, executions: Mapping[str, StatementExecution]) -> int:
    """Save the executions of a driver's statements, by statement id.

    Return the number of executions that were saved. A statement that has not ended with this driver
    is ignored, and so is one that has an execution: what was reported stays.
    """
    names = {"session": lease.session_id, "lease_epoch": lease.epoch}
    count = 0
    for statement_id, execution in executions.items():
        values = {**names, "statement": statement_id, "reported": execution}
        saved = tx.execute(_SAVE[tx.dialect], values).one_or_none()
        count += saved is not None
    return count


def find(tx: Tx, statement_id: str) -> StatementExecution | None:
    """Return the execution of a statement; None if none was reported."""
    query = select(table.c.execution).where(table.c.statement_id == statement_id)
    execution: StatementExecution | None = tx.execute(query).scalar_one_or_none()
    return execution
