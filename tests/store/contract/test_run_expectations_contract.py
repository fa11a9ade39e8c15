"""Contract of the expectations of runs: counts belong to a statement, and end with its run."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, select
from tests.support.batch_jobs import insert_batch_job

from headrace.model.expectation import (
    Expectation,
    ExpectationCounts,
    ExpectationResult,
    OnViolation,
    Violations,
)
from headrace.model.ids import new_id
from headrace.model.run import FiringRules, RunTimes, RunTrigger
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import expectations, runs
from headrace.store.tables import run_expectations
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
