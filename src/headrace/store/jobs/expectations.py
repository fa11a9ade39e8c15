"""The expectations of statements of runs, and what was counted for them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, select, update

from headrace.model.expectation import Expectation, ExpectationCounts, StatementChecks
from headrace.model.run import JobRun
from headrace.store.database import Tx
from headrace.store.tables import run_expectations as table

_SELECT = select(table.c.statement_id, table.c.run_id, table.c.expectations, table.c.counts)


def insert_expectations(
    tx: Tx, run: JobRun, statement_id: str, expectations: Sequence[Expectation]
) -> None:
    """Record the expectations of a statement of a run that is to be submitted."""
    row = {
        "statement_id": statement_id,
        "run_id": run.id,
        "job_id": run.job_id,
        "expectations": list(expectations),
    }
    tx.execute(insert(table), row)


def find(tx: Tx, statement_id: str) -> StatementChecks | None:
    """Return the expectations of a statement, or None if it has none."""
    query = _SELECT.where(table.c.statement_id == statement_id)
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else StatementChecks(**row)


def list_of_run(tx: Tx, run_id: str) -> list[StatementChecks]:
    """Return the expectations of the statements of a run."""
    query = _SELECT.where(table.c.run_id == run_id).order_by(table.c.statement_id)
    return [StatementChecks(**row) for row in tx.execute(query).mappings()]


def list_of_job(tx: Tx, job_id: str, limit: int) -> list[StatementChecks]:
    """Return the last statements of a job that have expectations, newest first."""
    query = _SELECT.where(table.c.job_id == job_id).order_by(table.c.statement_id.desc())
    return [StatementChecks(**row) for row in tx.execute(query.limit(limit)).mappings()]


def save_counts(tx: Tx, statement_id: str, counts: ExpectationCounts | None) -> None:
    """Store what was counted for the expectations of a statement; None: it is not known."""
    change = update(table).where(table.c.statement_id == statement_id)
    tx.execute(change.values(counts=counts))
