"""Runs that keep the lag of a job below `max-lag`, in a store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, select, update
from tests.support.batch_jobs import insert_batch_job
from tests.support.table_transactions import STAGED, Creation

from headrace.control.jobs.conditions import Conditions
from headrace.control.jobs.firing import measure_times
from headrace.control.jobs.freshness import measure
from headrace.control.jobs.live_runs import start_next
from headrace.control.jobs.trigger_checks import list_sources
from headrace.model.freshness import Freshness
from headrace.model.lifecycle import RunState, TransactionState
from headrace.model.run import (
    BatchSpec,
    BatchStatement,
    FiringRules,
    JobRun,
    Overlap,
    RunRetries,
    RunTrigger,
)
from headrace.model.schedule import Schedule
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import runs, triggers
from headrace.store.tables import runs as run_table
from headrace.store.tables import table_changes

DUE, SUCCEEDED, FAILED = RunState.DUE, RunState.SUCCEEDED, RunState.FAILED
OTHER = STAGED.model_copy(update={"target": "`d`.`u`"})


class FreshJob:
    """A job with `max-lag: 15min` over two tables, whose runs and clock the test moves."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.schedule = Schedule.model_validate({"max-lag": "15min", "of": ["d.t", "d.u"]})
        with store.read() as tx:
            now = read_clock(tx.connection)
        rules = FiringRules(schedule=self.schedule, overlap=Overlap.QUEUE)
        retries = RunRetries(min_backoff=timedelta(minutes=1), max_backoff=timedelta(minutes=10))
        batch = BatchSpec(
            rules=rules, statements=[BatchStatement(text="SELECT 1")], retries=retries
        )
        self.id = insert_batch_job(store, rules, cursor=now, batch=batch)
        self.save(keeps=False)

    def save(self, *, keeps: bool) -> None:
        with self.store.write("test") as tx:
            sources = list_sources(self.schedule)
            triggers.save(tx, self.id, owner="ada", sources=sources, keeps=keeps)

    def commit(self, **staged: Any) -> str:
        creation = Creation(self.store)
        creation.bring_to(TransactionState.COMMITTING, staged.get("staged", STAGED))
        assert creation.advance(TransactionState.COMMITTED)
        return creation.id

    def pass_minutes(self, minutes: float) -> None:
        """Move everything that has happened into the past."""
        with self.store.write("test") as tx:
            for table, names in (
                (table_changes, ["changed_at", "ready_at"]),
                (run_table, ["created_at", "started_at", "ended_at", "logical_time"]),
            ):
                for row in tx.execute(select(table).where(table.c.job_id == self.id)).mappings():
                    values = {
                        name: row[name] - timedelta(minutes=minutes)
                        for name in names
                        if row[name] is not None
                    }
                    key = [column == row[column.name] for column in table.primary_key]
                    tx.execute(update(table).where(*key).values(values))

    def list(self) -> list[JobRun]:
        context: Any = SimpleNamespace(database=self.store)
        Conditions(context).run()
        with self.store.read() as tx:
            return runs.page(tx, owners=None, job_id=self.id, limit=100)[::-1]

    def states(self) -> list[RunState]:
        return [run.state for run in self.list()]

    def begin(self, run: JobRun) -> None:
        with self.store.write("test") as tx:
            locked = runs.lock(tx, run.id)
            assert locked is not None
            runs.begin_attempt(tx, locked, position=0, connection_id="cn_x", actor="test")

    def end(self, target: RunState = SUCCEEDED, *, minutes: float = 0) -> None:
        """End the run that is due, after some minutes."""
        run = next(run for run in self.list() if run.state is DUE)
        self.begin(run)
        self.pass_minutes(minutes)
        with self.store.write("test") as tx:
            locked = runs.lock(tx, run.id)
            assert locked is not None
            runs.end(tx, locked, target, actor="test")
            start_next(tx, self.id, actor="test")
        self.list()

    def refresh_once(self, *, minutes: float) -> None:
        """Let a change start a run of this duration."""
        self.commit()
        self.pass_minutes(15)
        self.end(minutes=minutes)

    def measure(self) -> Freshness:
        with self.store.read() as tx:
            found = measure(tx, self.id)
        assert found is not None
        return found

    def count_notes(self) -> int:
        with self.store.read() as tx:
            query = select(func.count()).where(table_changes.c.job_id == self.id)
            count: int = tx.execute(query).scalar_one()
        return count


@pytest.fixture
def job(store: Database) -> FreshJob:
    return FreshJob(store)


def test_without_unread_changes_no_run_starts_and_the_lag_is_zero(job: FreshJob) -> None:
    assert job.states() == []
    assert job.measure() == Freshness(max_lag=timedelta(minutes=15), lag=timedelta(), expected=None)


def test_the_first_run_starts_when_the_tables_have_settled(job: FreshJob) -> None:
    job.commit()
    assert job.states() == []
    job.pass_minutes(6 / 60)
    [run] = job.list()
    assert (run.state, run.trigger, run.has_turn) == (DUE, RunTrigger.CONDITION, True)


def test_a_run_starts_as_late_as_its_duration_allows_and_reads_all_changes(
    job: FreshJob,
) -> None:
    job.refresh_once(minutes=4)
    assert job.measure().expected is not None
    first = job.list()[0].inputs[0].last_transaction
    job.commit()
    job.pass_minutes(9)
    last, other = job.commit(), job.commit(staged=OTHER)
    assert job.states() == [SUCCEEDED]
    # 15 min less 4 min and a margin of 1 min.
    job.pass_minutes(0.5)
    assert job.states() == [SUCCEEDED]
    job.pass_minutes(0.6)
    assert job.states() == [SUCCEEDED, DUE]
    named = [
        (each.table, each.after_transaction, each.last_transaction) for each in job.list()[1].inputs
    ]
    assert sorted(named, key=str) == [("d.t", first, last), ("d.u", None, other)]
    job.end(minutes=4)
    assert job.measure().lag == timedelta()
    assert job.count_notes() == 0


def test_changes_during_a_run_keep_their_age_and_start_one_run_after_it(job: FreshJob) -> None:
    job.refresh_once(minutes=4)
    job.commit()
    job.pass_minutes(11)
    [_first, run] = job.list()
    job.begin(run)
    for _commit in range(5):
        job.pass_minutes(2)
        job.commit()
        assert job.states() == [SUCCEEDED, RunState.RUNNING]
    assert job.measure().lag > timedelta(minutes=20)
    with job.store.write("test") as tx:
        locked = runs.lock(tx, run.id)
        assert locked is not None
        runs.end(tx, locked, SUCCEEDED, actor="test")
    # The first change during the run is 8 min old.
    assert timedelta(minutes=7.9) < job.measure().lag < timedelta(minutes=9)
    assert job.states() == [SUCCEEDED, SUCCEEDED, DUE]
    assert job.measure().is_unattainable


def test_changes_of_a_failed_run_are_not_read_and_the_next_run_waits_for_its_backoff(
    job: FreshJob,
) -> None:
    job.commit()
    job.pass_minutes(20)
    for waits in (1, 2, 4, 8, 10, 10):
        job.end(FAILED)
        job.pass_minutes(waits - 0.5)
        assert DUE not in job.states()
        job.pass_minutes(0.6)
        assert job.states()[-1] is DUE
    assert job.measure().lag > timedelta(minutes=50)
    job.end()
    assert (job.measure().lag, job.count_notes()) == (timedelta(), 0)
    last = job.list()[-1].inputs[0]
    assert last.after_transaction is None
    job.commit()
    job.pass_minutes(15)
    assert job.list()[-1].inputs[0].after_transaction == last.last_transaction


@pytest.mark.parametrize("trigger", [RunTrigger.USER, RunTrigger.REPAIR])
def test_a_successful_run_of_a_user_counts_and_a_repair_does_not(
    job: FreshJob, trigger: RunTrigger
) -> None:
    job.commit()
    with job.store.write("test") as tx:
        now = read_clock(tx.connection)
        runs.insert_run(
            tx,
            job.id,
            owner="ada",
            name="load",
            version_id="jv_x",
            trigger=trigger,
            times=measure_times([], now),
            due_at=now,
            actor="test",
        )
        start_next(tx, job.id, actor="test")
    job.pass_minutes(20)
    assert job.states() == [DUE]
    job.end()
    is_read = trigger is RunTrigger.USER
    assert (job.measure().lag == timedelta()) is is_read
    assert (job.states()[1:] == []) is is_read


def test_a_stopped_job_keeps_the_oldest_change_and_runs_once_at_its_start(job: FreshJob) -> None:
    with job.store.write("test") as tx:
        triggers.pause(tx, job.id)
    for _commit in range(4):
        job.commit()
        job.pass_minutes(10)
        assert job.states() == []
    assert job.count_notes() == 2
    assert job.measure().lag > timedelta(minutes=40)
    job.save(keeps=True)
    assert job.states() == [DUE]


def test_nodes_at_the_same_time_start_one_run(job: FreshJob) -> None:
    for _commit in range(3):
        job.commit()
    job.pass_minutes(16)
    with ThreadPoolExecutor(3) as nodes:
        for done in [nodes.submit(job.list) for _node in range(3)]:
            done.result()
    assert job.states() == [DUE]


def test_notes_of_many_changes_are_bounded(job: FreshJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.control.jobs.freshness._MOST_CHANGES", 5)
    job.refresh_once(minutes=1)
    for _commit in range(12):
        job.commit()
        if _commit % 3 == 2:
            assert job.states() == [SUCCEEDED]
    assert job.count_notes() == 2


def test_the_clock_of_the_store_decides(job: FreshJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job.commit()
    job.pass_minutes(20)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert job.measure().is_exceeded
    assert job.states() == [DUE]
