"""Runs that changes of tables start, in a store."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.batch_jobs import insert_batch_job
from tests.support.table_transactions import NATIVE, STAGED, Creation

from headrace.control.jobs.conditions import Conditions
from headrace.control.jobs.live_runs import start_next
from headrace.control.jobs.trigger_checks import list_sources
from headrace.deploy.schedule import to_table_key
from headrace.errors import InvalidStatement
from headrace.model.lifecycle import RunState, TransactionState
from headrace.model.run import FiringRules, JobRun, Overlap, RunTrigger
from headrace.model.schedule import Schedule
from headrace.model.transaction import Staged
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import runs, triggers

ON_CHANGE = Schedule.model_validate({"on-change": ["D.t", "lake.ns.u"], "settle": "0s"})
OTHER = STAGED.model_copy(update={"catalog": "lake", "target": "`ns`.`u`"})


class WatchingJob:
    """A job with a trigger on tables."""

    def __init__(self, store: Database, schedule: Schedule = ON_CHANGE) -> None:
        self.store = store
        self.schedule = schedule
        with store.read() as tx:
            now = read_clock(tx.connection)
        rules = FiringRules(schedule=schedule, overlap=Overlap.QUEUE)
        self.id = insert_batch_job(store, rules, cursor=now)
        self.save(keeps=False)

    def save(self, *, keeps: bool) -> None:
        with self.store.write("test") as tx:
            sources = list_sources(self.schedule)
            triggers.save(tx, self.id, owner="ada", sources=sources, keeps=keeps)

    def commit(self, staged: Staged = STAGED, end: TransactionState | None = None) -> str:
        """Change a table. Return the id of the transaction."""
        creation = Creation(self.store)
        creation.bring_to(TransactionState.COMMITTING, staged)
        assert creation.advance(end or TransactionState.COMMITTED)
        return creation.id

    def commit_as_own_run(self) -> None:
        creation = Creation(self.store)
        [run] = self.list()
        with self.store.write("test") as tx:
            runs.insert_statement(tx, run, 0, creation.statement)
        creation.bring_to(TransactionState.COMMITTING)
        assert creation.advance(TransactionState.COMMITTED)

    def list(self) -> list[JobRun]:
        context: Any = SimpleNamespace(database=self.store)
        Conditions(context).run()
        with self.store.read() as tx:
            return runs.page(tx, owners=None, job_id=self.id, limit=100)[::-1]

    def changes(self) -> list[list[tuple[str | None, str | None, str | None]]]:
        return [
            [(each.table, each.after_transaction, each.last_transaction) for each in run.inputs]
            for run in self.list()
        ]

    def begin(self, run: JobRun) -> None:
        with self.store.write("test") as tx:
            locked = runs.lock(tx, run.id)
            assert locked is not None
            runs.begin_attempt(tx, locked, position=0, connection_id="cn_x", actor="test")

    def end(self, run: JobRun) -> None:
        with self.store.write("test") as tx:
            locked = runs.lock(tx, run.id)
            assert locked is not None
            runs.end(tx, locked, RunState.SUCCEEDED, actor="test")
            start_next(tx, self.id, actor="test")


def test_a_run_knows_the_changes_since_the_run_before(store: Database) -> None:
    job = WatchingJob(store)
    assert job.list() == []
    first = job.commit()
    [run] = job.list()
    assert (run.state, run.trigger, run.has_turn) == (RunState.DUE, RunTrigger.CONDITION, True)
    assert job.changes() == [[("D.t", None, first)]]
    job.begin(run)
    job.end(run)
    second, third, other = job.commit(), job.commit(NATIVE), job.commit(OTHER)
    assert job.changes()[1] == [("D.t", first, third), ("lake.ns.u", None, other)]
    assert second not in str(job.changes())
    later = job.list()[1]
    assert later.times.interval_start == run.times.logical_time < later.times.interval_end


@pytest.mark.parametrize(
    ("staged", "end"),
    [
        (STAGED.model_copy(update={"target": "`d`.`u`"}), TransactionState.COMMITTED),
        (STAGED.model_copy(update={"catalog": "lake"}), TransactionState.COMMITTED),
        (STAGED, TransactionState.ABORTING),
    ],
    ids=["table", "catalog", "aborted"],
)
def test_other_tables_and_writes_without_a_commit_start_no_run(
    store: Database, staged: Staged, end: TransactionState
) -> None:
    job = WatchingJob(store)
    job.commit(staged, end)
    assert job.list() == []


def test_changes_during_a_run_start_exactly_one_more(store: Database) -> None:
    job = WatchingJob(store)
    first = job.commit()
    [run] = job.list()
    job.begin(run)
    for _commit in range(3):
        last = job.commit()
        assert len(job.list()) == 2
    assert job.changes()[1] == [("D.t", first, last)]
    assert [each.has_turn for each in job.list()] == [True, False]
    job.end(run)
    assert [each.has_turn for each in job.list()] == [True, True]


def test_a_write_of_the_job_does_not_start_it(store: Database) -> None:
    job = WatchingJob(store)
    job.commit()
    job.begin(job.list()[0])
    job.commit_as_own_run()
    assert len(job.list()) == 1


def test_a_burst_starts_one_run_when_it_has_settled_or_lasts_long(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = Schedule.model_validate({"on-change": ["d.t"], "settle": "1h"})
    job = WatchingJob(store, patient)
    for _commit in range(3):
        last = job.commit()
        assert job.list() == []
    with store.write("test") as tx:
        assert triggers.list_ready(tx, 10) == []
        triggers.wait_with_changes(tx, job.id, triggers.list_changes(tx, job.id, 10), 0)
    monkeypatch.setattr("headrace.control.jobs.run_notes.LONGEST_BURST", 0)
    assert job.changes() == [[("d.t", None, last)]]


def test_a_long_burst_keeps_the_first_change_and_the_last_one(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.jobs.run_notes._MOST_CHANGES", 4)
    job = WatchingJob(store, Schedule.model_validate({"on-change": ["d.t"], "settle": "1h"}))
    committed = [job.commit() for _commit in range(6)]
    assert job.list() == []
    with store.read() as tx:
        kept = [each.transaction_id for each in triggers.list_changes(tx, job.id, 10)]
    assert kept == [committed[0], committed[-1]]


def list_errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the errors that pools of the test have logged. Nodes of other tests may log, too."""
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    return [each for each in errors if str(each.threadName).startswith("ThreadPoolExecutor-")]


def test_many_writers_at_once_start_one_run_and_log_no_error(
    store: Database, caplog: pytest.LogCaptureFixture
) -> None:
    job = WatchingJob(store)
    creations = [Creation(store) for _writer in range(16)]
    for creation in creations:
        creation.bring_to(
            TransactionState.COMMITTING, STAGED.model_copy(update={"shares_target": True})
        )
    with ThreadPoolExecutor(16) as writers:
        committed = [
            writers.submit(creation.advance, TransactionState.COMMITTED) for creation in creations
        ]
    assert all(each.result() for each in committed)
    with ThreadPoolExecutor(3) as nodes:
        listed = [nodes.submit(job.list) for _node in range(3)]
    assert max(len(each.result()) for each in listed) == 1
    with store.read() as tx:
        assert triggers.list_changes(tx, job.id, 100) == []
    assert list_errors(caplog) == []


def test_changes_beside_nodes_that_start_runs_are_used_once_and_none_is_lost(
    store: Database, caplog: pytest.LogCaptureFixture
) -> None:
    job = WatchingJob(store)
    creations = [Creation(store) for _writer in range(16)]
    for creation in creations:
        creation.bring_to(
            TransactionState.COMMITTING, STAGED.model_copy(update={"shares_target": True})
        )

    def begin_runs() -> None:
        """Start runs and let them end, as nodes do while others write."""
        with store.write("test") as tx:
            for run in runs.list_live(tx, job.id):
                if run.has_turn and run.state is RunState.DUE:
                    runs.begin_attempt(tx, run, position=0, connection_id="cn_x", actor="test")
                elif run.state is RunState.RUNNING:
                    runs.end(tx, run, RunState.SUCCEEDED, actor="test")
                    start_next(tx, job.id, actor="test")

    with ThreadPoolExecutor(16) as writers, ThreadPoolExecutor(3) as nodes:
        committed = [
            writers.submit(creation.advance, TransactionState.COMMITTED) for creation in creations
        ]
        while not all(each.done() for each in committed):
            for listed in [nodes.submit(job.list) for _node in range(3)]:
                listed.result()
            begin_runs()
    assert all(each.result() for each in committed)
    used = [run_inputs for [run_inputs] in job.changes()]
    # Each run continues where the one before has ended, and the last one knows the last change.
    assert [after for _table, after, _last in used] == [
        None,
        *(last for _table, _after, last in used[:-1]),
    ]
    with store.read() as tx:
        assert triggers.list_changes(tx, job.id, 100) == []
    assert list_errors(caplog) == []


def test_a_stopped_job_runs_once_for_what_has_changed_meanwhile(store: Database) -> None:
    job = WatchingJob(store)
    with store.write("test") as tx:
        triggers.pause(tx, job.id)
    for _commit in range(3):
        last = job.commit()
        assert job.list() == []
    with store.read() as tx:
        assert len(triggers.list_changes(tx, job.id, 10)) == 1
    job.save(keeps=True)
    assert job.changes() == [[("D.t", None, last)]]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Sales", "spark_catalog.`default`.`sales`"),
        ("d.t", "spark_catalog.`d`.`t`"),
        ("lake.`My Db`.t", "lake.`my db`.`t`"),
    ],
)
def test_the_names_of_a_table_have_one_key(name: str, key: str) -> None:
    assert to_table_key(name) == key


@pytest.mark.parametrize("name", ["", "a b", "a.b.c.d"])
def test_a_wrong_name_of_a_table_is_refused(name: str) -> None:
    with pytest.raises(InvalidStatement, match="is not the name of a table"):
        to_table_key(name)
