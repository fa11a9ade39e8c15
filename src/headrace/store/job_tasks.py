"""The tasks that drivers carry out for jobs. A statement carries each of them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, insert, select, update

from headrace.model.job_messages import JobOutcome, JobTask
from headrace.store.database import Tx
from headrace.store.job_tables import job_tasks as table


def insert_task(tx: Tx, statement_id: str, task: JobTask) -> None:
    """Keep the task of a statement."""
    tx.execute(insert(table), {"statement_id": statement_id, "task": task})


def get_task(tx: Tx, statement_id: str) -> JobTask | None:
    """Return the task of a statement, or None if it has none."""
    query = select(table.c.task).where(table.c.statement_id == statement_id)
    return tx.execute(query).scalar_one_or_none()


def save_outcome(tx: Tx, statement_id: str, outcome: JobOutcome) -> None:
    """Keep what a driver has reported about the task of a statement that succeeds."""
    change = update(table).where(table.c.statement_id == statement_id)
    tx.execute(change.values(outcome=outcome))


def get_outcome(tx: Tx, statement_id: str) -> JobOutcome | None:
    """Return what a driver has reported about a task, or None."""
    query = select(table.c.outcome).where(table.c.statement_id == statement_id)
    return tx.execute(query).scalar_one_or_none()


def delete_of_statements(tx: Tx, statement_ids: Collection[str]) -> None:
    """Delete the tasks of statements that are deleted."""
    tx.execute(delete(table).where(table.c.statement_id.in_(statement_ids)))
