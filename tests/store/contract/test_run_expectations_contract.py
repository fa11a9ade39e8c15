"""Contract of the expectations of runs and of materialized views: counts belong to a statement.

The counts of a run are deleted with the run, and those of a view with the statement.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, select
from tests.support.batch_jobs import insert_batch_job
from tests.support.store import new_statement, running_session

from headrace.model.expectation import (
    Expectation,
    ExpectationCounts,
    ExpectationResult,
    OnViolation,
    Violations,
)
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.run import FiringRules, RunTimes, RunTrigger
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import expectations, runs
from headrace.store.tables import events, run_expectations, statements
from headrace.store.tables import runs as runs_table

POSITIVE = Expectation(name="positive", condition="a > 0", on_violation=OnViolation.FAIL)
COUNTS = ExpectationCounts(
    rows_in=4,
    rows_dropped=1,
    rows_written=3,
    expectations=[Violations(name="positive", violations=1, nulls=1)],
)


def test_counts_belong_to_a_statement_and_end_with_its_run(store: Database) -> None:
    with store.read() as tx:
        now = read_clock(tx.connection)
    job_id = insert_batch_job(store, FiringRules(), cursor=now)
    statements = [new_id("st") for _number in range(3)]
    with store.write("test") as tx:
        for number, statement_id in enumerate(statements):
            time = now + timedelta(hours=number)
            times = RunTimes(logical_time=time, interval_start=time, interval_end=time)
            run = runs.insert_run(
                tx,
                job_id,
                owner="ada",
                name="load",
                version_id=new_id("jv"),
                trigger=RunTrigger.USER,
                times=times,
                due_at=now,
                actor="ada",
            )
            expectations.insert_expectations(tx, run, statement_id, [POSITIVE])
        expectations.save_counts(tx, statements[1], COUNTS)
    with store.read() as tx:
        newest, counted = expectations.list_of_job(tx, job_id, 2)
        assert [newest.statement_id, counted.statement_id] == [statements[2], statements[1]]
        assert counted == expectations.find(tx, statements[1])
        assert expectations.list_of_run(tx, newest.run_id) == [newest]
        assert expectations.find(tx, new_id("st")) is None
    assert (counted.expectations, counted.counts) == ([POSITIVE], COUNTS)
    assert counted.find_result(0) is ExpectationResult.VIOLATED
    assert newest.find_result(0) is ExpectationResult.UNKNOWN
    with store.write("test") as tx:
        tx.execute(delete(runs_table).where(runs_table.c.id == newest.run_id))
        kept = tx.execute(select(func.count()).select_from(run_expectations)).scalar_one()
    assert kept == 2


def test_the_last_refresh_of_a_view_is_found_and_ends_with_its_statement(store: Database) -> None:
    view, other = new_id("mv"), new_id("mv")
    lease = running_session(store)
    first, second, newest = sorted(
        new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
        for _number in range(3)
    )
    failed = COUNTS.model_copy(update={"rows_written": None})
    with store.write("test") as tx:
        assert expectations.find_last_refresh(tx, view) is None
        expectations.save_refresh(tx, view, first, COUNTS)
        expectations.save_refresh(tx, other, newest, None)
    with store.read() as tx:
        assert expectations.find_last_refresh(tx, view) == (first, COUNTS)
    with store.write("test") as tx:
        expectations.save_refresh(tx, view, second, COUNTS)
        expectations.save_refresh(tx, view, second, failed)
    with store.read() as tx:
        assert expectations.find_last_refresh(tx, view) == (second, failed)
    with store.write("test") as tx:
        expectations.save_refresh(tx, view, second, None)
        assert expectations.find_last_refresh(tx, view) == (second, None)
        tx.execute(delete(events).where(events.c.entity_id == second))
        tx.execute(delete(statements).where(statements.c.id == second))
    with store.read() as tx:
        assert expectations.find_last_refresh(tx, view) == (first, COUNTS)
