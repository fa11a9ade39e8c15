"""The expectations of statements of runs, and what such statements and refreshes have counted."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, select, update

from headrace.model.expectation import Expectation, ExpectationCounts, StatementChecks
from headrace.model.run import JobRun
from headrace.store.database import Tx
from headrace.store.tables import run_expectations as table
from headrace.store.tables import view_expectations
from headrace.store.upserts import build_replacement

_SELECT = select(table.c.statement_id, table.c.run_id, table.c.expectations, table.c.counts)
_SAVE_REFRESH = build_replacement(view_expectations, "statement_id", "counts")


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


def save_refresh(tx: Tx, view_id: str, statement_id: str, counts: ExpectationCounts | None) -> None:
    """Store what the statement that writes a view has counted. It replaces earlier counts.

    Args:
        counts: None if they are not known.
    """
    row = {"statement_id": statement_id, "view_id": view_id, "counts": counts}
    tx.execute(_SAVE_REFRESH[tx.dialect], row)


def find_last_refresh(tx: Tx, view_id: str) -> tuple[str, ExpectationCounts | None] | None:
    """Return the id and the counts of the last statement whose counts of a view are stored.

    Return None if there is no such statement. The counts are None if they are not known.
    """
    columns = view_expectations.c
    query = select(columns.statement_id, columns.counts).where(columns.view_id == view_id)
    row = tx.execute(query.order_by(columns.statement_id.desc()).limit(1)).one_or_none()
    return None if row is None else (row.statement_id, row.counts)
