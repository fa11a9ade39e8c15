"""The service for runs of batch jobs: list, run a time again, backfill, repair, cancel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile

from headrace.control.context import NodeContext
from headrace.control.jobs.firing import make_times
from headrace.control.jobs.live_runs import start_next
from headrace.control.jobs.service import find_job
from headrace.control.policy import Action, Caller, check, listed_owners
from headrace.control.runs.run_reasons import RunReasons
from headrace.control.runs.schedule_status import (
    RunQueue,
    ScheduleStatus,
    preview_firings,
    read_queue,
)
from headrace.control.statements.service import Statements
from headrace.deploy.batch_writes import partitions_statement
from headrace.deploy.schedule import Firing, find_last, find_next, list_firings
from headrace.errors import (
    ExpectationsUnknown,
    InvalidRequest,
    JobStateConflict,
    RunNotFound,
    RunStateConflict,
)
from headrace.model.deployment import Job, JobVersion
from headrace.model.expectation import StatementChecks
from headrace.model.ids import new_id
from headrace.model.lifecycle import RUN, JobState, RunState
from headrace.model.reasons import Reason
from headrace.model.run import (
    BatchTarget,
    JobRun,
    JobSchedule,
    RunInput,
    RunStatement,
    RunTimes,
    RunTrigger,
    measure_lateness,
)
from headrace.model.statement import Statement
from headrace.model.stream_expectation import StreamChecks, list_expectations
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import expectations, file_watches, jobs, runs, schedules
from headrace.store.statements import statements
from headrace.store.streams import stream_expectations, stream_queries
from headrace.text.readable import format_utc

_MOST_INTERVALS = 1_000
"""Intervals of one backfill. Other writers wait for its transaction."""
_MOST_PARALLEL = 100
_STRIP_RUNS = 60
"""Runs of a job that its page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run as users see it."""

    run: JobRun
    reason: Reason | None
    """Why it has not ended, or has not succeeded."""
    late_seconds: float | None
    """Time by which its last attempt began late; see `measure_lateness`."""
    statements: list[RunStatement]
    """Those of its attempts; in a list of runs, empty."""
    checks: list[StatementChecks] = field(default_factory=list)
    """The statements with expectations; in a list of runs, empty."""
    files: list[str] = field(default_factory=list)
    """The files that it has to read; in a list of runs, empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStatement:
    """A statement with expectations, and its run."""

    run: JobRun
    checks: StatementChecks


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInterval:
    """An interval of a backfill."""

    start: datetime
    end: datetime
    """Logical time of its run."""
    state: RunState | None
    """State of its last run; None: it has none."""
    refusal: str | None
    """Why it is not run again; None: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The intervals of a backfill, in their order."""

    id: str | None
    """Id of its runs together; None: it is a plan."""
    version_id: str
    """Version that its runs have."""
    target: BatchTarget | None
    """What its runs write; None: their script says so."""
    partitions_query: str | None
    """Query for the partitions in which the rows of an interval are; None: that is not known."""
    intervals: list[PlannedInterval]


class JobRuns:
    """Runs of all callers, served by one node."""

    def __init__(self, context: NodeContext, service: Statements) -> None:
        self._database = context.database
        self._reasons = RunReasons(context.database, service)

    def page(
        self,
        caller: Caller,
        *,
        job: str | None = None,
        states: Collection[RunState] | None = None,
        before: str | None = None,
        limit: int,
        all_owners: bool = False,
    ) -> list[RunStatus]:
        """Return at most `limit` runs of the owners that `caller` lists, newest first.

        Args:
            job: Name or id of the job whose runs are returned, by their logical times.

        Raise JobNotFound.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            job_id = None if job is None else find_job(tx, caller, job).id
            found = runs.page(
                tx,
                owners=owners if job_id is None else None,
                job_id=job_id,
                states=states,
                before=before,
                limit=limit,
            )
        return self._describe(caller, found)

    def get(self, caller: Caller, run_id: str) -> RunStatus:
        """Return a run that the caller may read. Raise RunNotFound."""
        with self._database.read() as tx:
            run = _find_run(tx, caller, run_id, Action.READ)
            submitted = runs.list_statements(tx, [run.id])
            checks = expectations.list_of_run(tx, run.id)
            files = file_watches.list_run_files(tx, run.id)
        [status] = self._describe(caller, [run])
        return replace(status, statements=submitted, checks=checks, files=files)

    def check(self, caller: Caller, name: str, *, limit: int) -> list[CheckedStatement]:
        """Return the last statements of a job that have expectations, newest first.

        Raise JobNotFound.
        """
        with self._database.read() as tx:
            found = expectations.list_of_job(tx, find_job(tx, caller, name).id, limit)
            by_id = runs.list_by_id(tx, {each.run_id for each in found})
        # The deletion of old runs takes their statements along.
        return [
            CheckedStatement(run=by_id[each.run_id], checks=each)
            for each in found
            if each.run_id in by_id
        ]

    def check_stream(self, caller: Caller, name: str) -> StreamChecks | None:
        """Return what the query of a streaming job has counted; None: it has no expectations.

        Raise JobNotFound.
        """
        with self._database.read() as tx:
            job = find_job(tx, caller, name)
            query = stream_queries.find(tx, job.owner, job.name, job.name)
            expected = [] if query is None else list_expectations(query)
            if query is None or not expected:
                return None
            counts = stream_expectations.find(tx, query)
        return StreamChecks(query=query, expectations=expected, counts=counts)

    def get_version(self, caller: Caller, run_id: str) -> JobVersion | None:
        """Return the version that a run runs; None: the store has it no more.

        Raise RunNotFound.
        """
        with self._database.read() as tx:
            run = _find_run(tx, caller, run_id, Action.READ)
            return jobs.get_version(tx, run.version_id)

    def read_statements(self, caller: Caller, run_id: str) -> dict[str, Statement]:
        """Return the statements of a run that the store still has, by id. Raise RunNotFound."""
        with self._database.read() as tx:
            run = _find_run(tx, caller, run_id, Action.READ)
            submitted = runs.list_statements(tx, [run.id])
            ids = [each.statement_id for each in submitted]
            return statements.get_all(tx, ids, cut_text=True)

    def get_backfill(self, caller: Caller, backfill_id: str) -> list[RunStatus]:
        """Return the runs of a backfill by their logical times. Raise RunNotFound."""
        with self._database.read() as tx:
            found = _find_backfill(tx, caller, backfill_id, Action.READ)
        return self._describe(caller, found)

    def get_schedule(self, caller: Caller, name: str) -> ScheduleStatus | None:
        """Return how the schedule of a job stands; None: the job has none, as a stream.

        Raise JobNotFound.
        """
        with self._database.read() as tx:
            schedule = schedules.find(tx, find_job(tx, caller, name).id)
            if schedule is None:
                return None
            firings, problem = preview_firings(schedule)
            run_now = repeated = None
            if problem is None:
                run_now = _choose_times(tx, schedule, None, read_clock(tx.connection))
                repeated = runs.find_last(tx, schedule.job_id, run_now.logical_time)
            last = runs.page(tx, owners=None, job_id=schedule.job_id, limit=_STRIP_RUNS)
            return ScheduleStatus(
                schedule=schedule,
                firings=firings,
                problem=problem,
                queue=read_queue(tx, schedule.job_id),
                last_runs=last[::-1],
                run_now=run_now,
                repeated=repeated,
            )

    def get_queue(self, caller: Caller, name: str) -> RunQueue:
        """Return the runs of a job that wait for their turn. Raise JobNotFound."""
        with self._database.read() as tx:
            return read_queue(tx, find_job(tx, caller, name).id)

    def run(self, caller: Caller, name: str, at: datetime | None = None) -> RunStatus:
        """Run a job for a logical time, and return the run.

        Args:
            at: The logical time. None: the last one of the schedule; now, if it has none.

        Raises:
            JobNotFound, JobStateConflict: There is no such job, or it is a stream.
            InvalidRequest: The schedule does not fire at that time.
            RunStateConflict: The run of the time has not ended.
        """
        with self._database.write("run.request") as tx:
            schedule = _lock_schedule(tx, caller, name)
            times = _choose_times(tx, schedule, at, read_clock(tx.connection))
            run = _insert(tx, schedule, times, RunTrigger.USER, actor=caller.actor)
            start_next(tx, schedule.job_id, actor=caller.actor)
        return self.get(caller, run.id)

    def backfill(
        self,
        caller: Caller,
        name: str,
        start: datetime,
        end: datetime,
        *,
        parallel: int = 1,
        dry_run: bool = False,
    ) -> Backfill:
        """Run a job for all intervals that begin from `start` on and end by `end`.

        Args:
            parallel: Largest number of its runs at the same time.
            dry_run: Whether only the plan is returned.

        Raises:
            JobNotFound, JobStateConflict: There is no such job, or it is a stream.
            InvalidRequest: The job has no schedule of time, or there are too many intervals.
        """
        if not 1 <= parallel <= _MOST_PARALLEL:
            raise InvalidRequest(f"`parallel` is from 1 to {_MOST_PARALLEL}.")
        with self._database.write("run.backfill") as tx:
            schedule = _lock_schedule(tx, caller, name)
            now = read_clock(tx.connection)
            planned = _plan_intervals(tx, schedule, start, min(end, now))
            plan = _describe_backfill(tx, schedule, [each for each, *_run in planned])
            if dry_run:
                return plan
            backfill_id = new_id("bf")
            for interval, times, last in planned:
                if interval.refusal is None:
                    runs.insert_run(
                        tx,
                        schedule.job_id,
                        owner=schedule.owner,
                        name=schedule.name,
                        version_id=schedule.version_id,
                        trigger=RunTrigger.BACKFILL,
                        times=times,
                        due_at=now,
                        actor=caller.actor,
                        last=last,
                        parallelism=parallel,
                        backfill_id=backfill_id,
                    )
            start_next(tx, schedule.job_id, actor=caller.actor)
        return replace(plan, id=backfill_id)

    def repair(self, caller: Caller, run_id: str, *, latest: bool = False) -> RunStatus:
        """Run a run that has not succeeded again: its times, and the statements that failed.

        Args:
            latest: Whether to run the deployed version, and not that of the run.

        Raises:
            RunNotFound: There is no such run.
            RunStateConflict: The run has succeeded, has not ended, or was run again already.
        """
        with self._database.write("run.repair") as tx:
            run = _find_run(tx, caller, run_id, Action.CHANGE)
            schedule = _lock_schedule(tx, caller, run.job_id)
            failure = run.failure
            has_written = failure is not None and failure.code == ExpectationsUnknown.code
            if run.state is RunState.SUCCEEDED or has_written:
                raise RunStateConflict(
                    f"The run {run.id} has written all its rows."
                    if has_written
                    else f"The run {run.id} has succeeded.",
                    hint=f"headrace job run {run.name} --at {format_utc(run.times.logical_time)}"
                    " runs its time again.",
                )
            new_run = _insert(
                tx,
                schedule,
                run.times,
                RunTrigger.REPAIR,
                actor=caller.actor,
                version_id=None if latest else run.version_id,
                # Statements before this one have succeeded.
                position=0 if latest else run.position,
                inputs=run.inputs,
            )
            start_next(tx, schedule.job_id, actor=caller.actor)
        return self.get(caller, new_run.id)

    def cancel(self, caller: Caller, run_id: str) -> RunStatus:
        """Ask for the end of a run, and return it. Raise RunNotFound and RunStateConflict."""
        with self._database.write("run.cancel") as tx:
            run = _find_run(tx, caller, run_id, Action.CHANGE)
            schedules.lock(tx, run.job_id)
            _cancel(tx, run, actor=caller.actor)
        return self.get(caller, run_id)

    def cancel_backfill(self, caller: Caller, backfill_id: str) -> list[RunStatus]:
        """Ask for the end of all runs of a backfill. None of them starts afterwards.

        Raise RunNotFound if there is no such backfill.
        """
        with self._database.write("run.cancel") as tx:
            members = _find_backfill(tx, caller, backfill_id, Action.CHANGE)
            schedules.lock(tx, members[0].job_id)
            for run in members:
                if run.state not in RUN.terminal:
                    _cancel(tx, run, actor=caller.actor)
            ended = runs.list_backfill(tx, backfill_id)
        return self._describe(caller, ended)

    def _describe(self, caller: Caller, found: Sequence[JobRun]) -> list[RunStatus]:
        """Return runs that the caller may read with their reasons, without their statements."""
        with self._database.read() as tx:
            now = read_clock(tx.connection)
        reasons = self._reasons.find_all(caller, found, now)
        return [
            RunStatus(
                run=run,
                reason=reasons[run.id],
                late_seconds=measure_lateness(run, now),
                statements=[],
            )
            for run in found
        ]


def _find_run(tx: Tx, caller: Caller, run_id: str, action: Action) -> JobRun:
    missing = RunNotFound(f"There is no run {run_id[:100]!r}.")
    return check(caller, action, runs.get(tx, run_id), missing)


def _find_backfill(tx: Tx, caller: Caller, backfill_id: str, action: Action) -> list[JobRun]:
    """Return the runs of a backfill, at least one. Raise RunNotFound."""
    members = runs.list_backfill(tx, backfill_id)
    missing = RunNotFound(f"There is no backfill {backfill_id[:100]!r}.")
    check(caller, action, members[0] if members else None, missing)
    return members


def _lock_schedule(tx: Tx, caller: Caller, name: str) -> JobSchedule:
    job = find_job(tx, caller, name, Action.CHANGE)
    schedule = schedules.lock(tx, job.id)
    if schedule is None:
        raise JobStateConflict(_describe_no_schedule(job))
    return schedule


def _describe_no_schedule(job: Job) -> str:
    if job.state is JobState.DEPLOYING:
        return f"The job {job.name} is being deployed for the first time."
    return f"The job {job.name} is a stream, which has no runs."


def _choose_times(tx: Tx, schedule: JobSchedule, at: datetime | None, now: datetime) -> RunTimes:
    rule = schedule.rules.clock
    instant = now if at is None else at
    last = runs.find_last(tx, schedule.job_id, instant)
    if last is not None and (rule is None or last.files):
        return last.times
    if rule is None:
        return make_times(schedule, Firing(instant, instant), instant)
    firing = find_last(rule, now if at is None else at + (at.resolution))
    if firing is None or (at is not None and firing.instant != at):
        following = find_next(rule, now if at is None else at)
        near = [format_utc(each.instant) for each in (firing, following) if each is not None]
        raise InvalidRequest(
            f"The job {schedule.name} has no run at {format_utc(at or now)}.",
            hint=f"The nearest logical times are {' and '.join(near)}.",
        )
    before = find_last(rule, firing.instant)
    return make_times(schedule, firing, firing.instant if before is None else before.instant)


def _describe_backfill(tx: Tx, schedule: JobSchedule, intervals: list[PlannedInterval]) -> Backfill:
    """Return the plan of a backfill."""
    version = jobs.get_version(tx, schedule.version_id)
    assert version is not None
    assert version.spec.batch is not None
    target, sql = version.spec.batch.target, version.spec.manifest.get("sql")
    query = None
    if target is not None and target.partition_by and sql is not None:
        query = partitions_statement(target, sql)
    return Backfill(
        id=None,
        version_id=version.id,
        target=target,
        partitions_query=query,
        intervals=intervals,
    )


def _plan_intervals(
    tx: Tx, schedule: JobSchedule, start: datetime, end: datetime
) -> list[tuple[PlannedInterval, RunTimes, JobRun | None]]:
    """Return the intervals with the times of their next runs, and their last runs."""
    rule = schedule.rules.clock
    if rule is None:
        raise InvalidRequest(
            f"The job {schedule.name} has no schedule of time, so that it has no intervals.",
            hint=_suggest_runs(schedule),
        )
    firings = list_firings(rule, start)
    last_runs = runs.find_last_runs(tx, schedule.job_id, start=start, end=end)
    first = find_last(rule, start + start.resolution)
    begin = None if first is None or first.instant != start else start
    planned = []
    for firing in takewhile(lambda each: each.instant <= end, firings):
        if begin is not None:
            last = last_runs.get(firing.instant)
            planned.append((*_plan_interval(schedule, firing, begin, last), last))
        begin = firing.instant
        if len(planned) > _MOST_INTERVALS:
            raise InvalidRequest(
                f"From {format_utc(start)} to {format_utc(end)} are more than"
                f" {_MOST_INTERVALS:,} intervals.",
                hint="Backfill them in parts.",
            )
    return planned


def _suggest_runs(schedule: JobSchedule) -> str:
    """Return how to make past runs of a job that has no intervals of its own."""
    rule = schedule.rules.schedule
    upstream = [] if rule is None else rule.list_upstream()
    if upstream:
        return f"A backfill of {upstream[0]} starts the runs of {schedule.name} as well."
    return f"headrace job run {schedule.name} --at TIME runs it for one time."


def _plan_interval(
    schedule: JobSchedule, firing: Firing, start: datetime, last: JobRun | None
) -> tuple[PlannedInterval, RunTimes]:
    """Return an interval with the times of its next run.

    Args:
        last: The last run of the interval; None: it has none.
    """
    is_live = last is not None and last.state not in RUN.terminal
    refusal = f"its run {last.id} is {last.state}" if last is not None and is_live else None
    interval = PlannedInterval(
        start=start,
        end=firing.instant,
        state=None if last is None else last.state,
        refusal=refusal,
    )
    return interval, make_times(schedule, firing, start)


def _insert(
    tx: Tx,
    schedule: JobSchedule,
    times: RunTimes,
    trigger: RunTrigger,
    *,
    actor: str,
    version_id: str | None = None,
    position: int = 0,
    inputs: Sequence[RunInput] = (),
) -> JobRun:
    """Insert the next run of a logical time, and return it.

    Raise RunStateConflict if the last one has not ended.
    """
    last = runs.find_last(tx, schedule.job_id, times.logical_time)
    if last is not None and last.state not in RUN.terminal:
        raise RunStateConflict(
            f"The run {last.id} of {format_utc(times.logical_time)} is {last.state}.",
            hint=f"Wait for its end, or cancel it: headrace run cancel {last.id}.",
        )
    return runs.insert_run(
        tx,
        schedule.job_id,
        owner=schedule.owner,
        name=schedule.name,
        version_id=version_id or schedule.version_id,
        trigger=trigger,
        times=times,
        due_at=read_clock(tx.connection),
        actor=actor,
        last=last,
        position=position,
        inputs=inputs,
    )


def _cancel(tx: Tx, run: JobRun, *, actor: str) -> None:
    """Ask for the end of a run; one that waits for its turn ends at once."""
    if run.state in RUN.terminal:
        raise RunStateConflict(f"The run {run.id} has ended: it is {run.state}.")
    if run.has_turn:
        runs.request_cancel(tx, run.id, actor=actor)
        return
    locked = runs.lock(tx, run.id)
    assert locked is not None
    runs.end(tx, locked, RunState.CANCELLED, actor=actor, reason=f"by {actor}")
