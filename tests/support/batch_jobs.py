"""Batch jobs in a store, without a deployment, and one whose driver a test plays."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result
from tests.support.pool_driver import PoolDriver
from tests.support.waiting import wait_until

from headrace.control.jobs.firing import span_until
from headrace.control.jobs.live_runs import DueRun, LiveRuns, start_next
from headrace.model.deployment import Job, JobSession, VersionSpec
from headrace.model.job import JobDecision
from headrace.model.run import (
    BatchSpec,
    BatchStatement,
    FiringRules,
    RunInput,
    RunRetries,
    RunTimes,
    RunTrigger,
)
from headrace.model.schedule import Schedule
from headrace.model.session import SessionSpec
from headrace.model.statement import Statement
from headrace.store.clock import read_clock
from headrace.store.database import Database, Tx
from headrace.store.jobs import file_watches, jobs, schedules
from headrace.store.jobs.schedules import NextFiring

HOURLY = FiringRules(schedule=Schedule(cron="0 * * * *"))
FIRST, SECOND = "SELECT :interval_start", "SELECT :interval_end"


def insert_batch_job(
    store: Database,
    rules: FiringRules,
    *,
    cursor: datetime,
    name: str = "load",
    owner: str = "ada",
    batch: BatchSpec | None = None,
) -> str:
    """Insert a job whose schedule has come to `cursor`. Return its id."""
    [job_id] = insert_batch_jobs(
        store, rules, cursor=cursor, names=[name], owner=owner, batch=batch
    )
    return job_id


def insert_batch_jobs(
    store: Database,
    rules: FiringRules,
    *,
    cursor: datetime,
    names: Iterable[str],
    owner: str = "ada",
    batch: BatchSpec | None = None,
) -> list[str]:
    """Insert jobs whose schedules have come to `cursor`. Return their ids."""
    batch = batch or BatchSpec(rules=rules, statements=[BatchStatement(text="SELECT 1")])
    job_ids = []
    with store.write("test") as tx:
        for name in names:
            place = f"/{owner}/{name}"
            job = jobs.insert_job(tx, owner, name, "/state", state_place=place, actor=owner)
            _insert_version(tx, job, batch, cursor)
            job_ids.append(job.id)
    return job_ids


def deploy_version(store: Database, job_id: str, batch: BatchSpec, *, cursor: datetime) -> str:
    """Let the schedule of a job start a new version from now on. Return the id of the version."""
    with store.write("test") as tx:
        job = jobs.get(tx, job_id)
        assert job is not None
        return _insert_version(tx, job, batch, cursor)


def _insert_version(tx: Tx, job: Job, batch: BatchSpec, cursor: datetime) -> str:
    spec = VersionSpec(
        written={},
        manifest={},
        description="",
        query_fingerprint="",
        configuration_fingerprint="",
        session=JobSession(name="jobs-default", spec=SessionSpec()),
        queries=[],
        batch=batch,
    )
    version = jobs.insert_version(
        tx,
        job,
        spec,
        version=1,
        query_id=str(uuid.uuid4()),
        decision=JobDecision.START_CLEAN,
        reason="",
        deployment_id="dp_x",
    )
    rules = batch.rules
    has_clock = rules.clock is not None
    schedules.save(
        tx,
        job.id,
        version_id=version.id,
        rules=rules,
        cursor=cursor,
        next_at=cursor if has_clock else None,
    )
    return version.id


def make_daily(now: datetime) -> tuple[str, datetime]:
    """Return a cron with one time a day, and its last time, half a day ago.

    The next time comes in no test.
    """
    last = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=12)
    return f"0 {last.hour} * * *", last


def hold_schedule(store: Database, job_id: str) -> None:
    """Let no node fire the schedule of a job: a time of the schedule may come during a test."""
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        later = schedule.cursor + timedelta(days=365)
        schedules.save_next_firings(tx, [NextFiring(job_id, schedule.cursor, later)])


class BatchJob:
    """A job with two statements, whose driver the test plays."""

    def __init__(self, node: InProcessNode, *, rules: FiringRules = HOURLY, **batch: Any) -> None:
        """Insert a job.

        Args:
            node: The node that runs it.
            rules: Its schedule. A run without a time has the last time of the schedule: with
                HOURLY, an hour may begin between two of them.
            batch: Changes of its other fields.
        """
        self.node = node
        self.driver = PoolDriver(node)
        with node.database.read() as tx:
            self._now = read_clock(tx.connection)
        self._spec = BatchSpec(
            rules=rules,
            statements=[BatchStatement(text=FIRST), BatchStatement(text=SECOND)],
            retries=RunRetries(max_attempts=2, min_backoff=timedelta(milliseconds=10)),
        ).model_copy(update=batch)
        owner = LOCAL_CALLER.owner
        self.id = insert_batch_job(
            node.database, rules, cursor=self._now, owner=owner, batch=self._spec
        )
        hold_schedule(node.database, self.id)

    def deploy(self, *texts: str) -> str:
        """Deploy a version with these statements. Return its id."""
        statements = [BatchStatement(text=text) for text in texts]
        batch = self._spec.model_copy(update={"statements": statements})
        version = deploy_version(self.node.database, self.id, batch, cursor=self._now)
        hold_schedule(self.node.database, self.id)
        return version

    def read_statement(self) -> Statement:
        """Return the statement that the driver has claimed."""
        return self.node.node.statements.get(LOCAL_CALLER, self.driver.statement)

    def call(self, path: str, status: int = 201, **body: Any) -> Any:
        answer = self.node.http.post(f"/api/v1/{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, run_id: str) -> Any:
        return self.node.http.get(f"/api/v1/runs/{run_id}").json()

    def next_statement(self) -> str:
        """Claim the next statement, and return its text."""
        self.await_statement()
        return self.driver.claim()

    def await_statement(self) -> None:
        """Wait until a statement of a run waits for the driver."""
        waiting = {"state": ["waiting"]}
        wait_until(lambda: self.node.http.get("/api/v1/statements", params=waiting).json()["items"])

    def succeed(self) -> None:
        self.driver.succeed(inline_result([("a", "integer")], [[1]]))

    def start_with_files(
        self, location: str, files: list[str], times: RunTimes | None = None
    ) -> str:
        """Start the run that new files start, by default now. Return its id."""
        inputs = [RunInput(location=location, file_count=len(files))]
        with self.node.database.write("test") as tx:
            schedule = schedules.lock(tx, self.id)
            assert schedule is not None
            now = span_until(tx, self.id, read_clock(tx.connection))
            due = DueRun(times or now, trigger=RunTrigger.CONDITION, inputs=inputs)
            [run] = LiveRuns(tx, schedule, []).insert(due)
            file_watches.insert_run_files(tx, run.id, files)
            start_next(tx, self.id, actor="test")
        return run.id

    def stop_operations(self) -> None:
        """Let the node make no further step of a run, as a node that is lost."""
        self.node.node._operations.stop()

    def continue_operations(self) -> None:
        """Let the node continue, as another node that has adopted the runs."""
        operations = self.node.node._operations
        self.node.node._operations = type(operations)(self.node.node.context, operations._kinds)
        self.node.node._operations.start()

    def await_end(self, run_id: str) -> Any:
        wait_until(lambda: self.get(run_id)["ended_at"] is not None)
        return self.get(run_id)
