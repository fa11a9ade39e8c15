"""Jobs in a store whose runs a test inserts and ends, and jobs that follow them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from tests.support.batch_jobs import insert_batch_job
from tests.support.table_transactions import STAGED, Creation

from headrace.control.jobs.conditions import Conditions
from headrace.control.jobs.firing import fire
from headrace.control.jobs.live_runs import start_next
from headrace.control.jobs.trigger_checks import list_sources
from headrace.model.lifecycle import RunState, TransactionState
from headrace.model.run import FiringRules, JobRun, Overlap, RunTimes, RunTrigger
from headrace.model.schedule import Schedule
from headrace.model.transaction import Staged
from headrace.store.database import Database
from headrace.store.jobs import runs, schedules, triggers

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SUCCEEDED, FAILED, SKIPPED = RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED
DUE, RUNNING = RunState.DUE, RunState.RUNNING


class FollowedJobs:
    """Jobs of a store, whose runs the test inserts and ends."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.ids: dict[str, str] = {}

    def add(self, name: str, *after: str, **rules: Any) -> None:
        schedule = Schedule(after=list(after)) if after else Schedule(cron="0 * * * *")
        schedule = rules.pop("schedule", schedule)
        given = FiringRules(schedule=schedule, **{"overlap": Overlap.QUEUE, **rules})
        job_id = insert_batch_job(self.store, given, cursor=NOON, name=name)
        self.ids[name] = job_id
        with self.store.write("test") as tx:
            triggers.save(tx, job_id, owner="ada", sources=list_sources(schedule), keeps=False)

    def begin(
        self,
        name: str,
        hour: float = 0,
        hours: float = 1,
        trigger: RunTrigger = RunTrigger.SCHEDULE,
    ) -> str:
        """Insert the next run of the time that ends this number of hours after noon."""
        end = NOON + timedelta(hours=hour)
        times = RunTimes(
            logical_time=end, interval_start=end - timedelta(hours=hours), interval_end=end
        )
        with self.store.write("test") as tx:
            last = runs.find_last(tx, self.ids[name], end)
            run = runs.insert_run(
                tx,
                self.ids[name],
                owner="ada",
                name=name,
                version_id="jv_x",
                trigger=trigger,
                times=times,
                due_at=end,
                actor="test",
                last=last,
            )
        return run.id

    def end(self, run_id: str, target: RunState = SUCCEEDED) -> None:
        with self.store.write("test") as tx:
            run = runs.lock(tx, run_id)
            assert run is not None
            if run.state is DUE and target is not SKIPPED:
                runs.begin_attempt(tx, run, position=0, connection_id="cn_x", actor="test")
                run = runs.lock(tx, run_id)
                assert run is not None
            if target is not RUNNING:
                runs.end(tx, run, target, actor="test")
                start_next(tx, run.job_id, actor="test")

    def run(self, name: str, hour: float = 0, target: RunState = SUCCEEDED, **times: Any) -> str:
        """Insert a run and end it. Return its id."""
        run_id = self.begin(name, hour, **times)
        self.end(run_id, target)
        return run_id

    def follow(self) -> None:
        context: Any = SimpleNamespace(database=self.store)
        Conditions(context).run()

    def wake(self, name: str) -> None:
        """Let a job look at its notes, as it does after a time."""
        with self.store.write("test") as tx:
            triggers.wake(tx, self.ids[name])

    def list(self, name: str) -> list[JobRun]:
        self.follow()
        with self.store.read() as tx:
            return runs.page(tx, owners=None, job_id=self.ids[name], limit=5000)[::-1]

    def states(self, name: str) -> list[tuple[int, RunState]]:
        return [
            ((run.times.logical_time - NOON) // timedelta(hours=1), run.state)
            for run in self.list(name)
        ]

    def fire(self, name: str, hour: float) -> int:
        """Fire the schedule of a job that is due this number of hours after noon."""
        with self.store.write("test") as tx:
            schedule = schedules.lock(tx, self.ids[name])
            assert schedule is not None
            return fire(tx, schedule, NOON + timedelta(hours=hour))

    def change(self, staged: Staged = STAGED) -> str:
        """Change a table, by default `d.t`. Return the id of the transaction."""
        creation = Creation(self.store)
        creation.bring_to(
            TransactionState.COMMITTING, staged.model_copy(update={"shares_target": True})
        )
        assert creation.advance(TransactionState.COMMITTED)
        return creation.id
