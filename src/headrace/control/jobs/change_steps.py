"""The steps of the change of a job. job_changer.py calls them in the order of the lifecycle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.jobs.batch_plans import start_schedule, stop_schedule
from headrace.control.jobs.job_queries import (
    Verdict,
    have_ended,
    judge_queries,
    list_written,
    lock_sessions_of,
    start_queries,
    stop_job,
    stop_queries,
)
from headrace.control.jobs.job_sessions import open_check_session, open_session
from headrace.control.jobs.places import JobPlaces, identity_of
from headrace.control.jobs.plan_completion import judge_versions
from headrace.control.jobs.tasks import (
    EndedTask,
    get_job,
    get_version,
    read_end,
    submit_manifest,
    submit_restore,
    submit_savepoint,
    submit_task,
)
from headrace.errors import HeadraceError, JobStateMissing, LeaseLost, SessionConflict
from headrace.model.deployment import (
    ChangeRecord,
    JobAction,
    JobChange,
    JobSession,
    JobVersion,
    OperationLease,
)
from headrace.model.failure import Failure
from headrace.model.job import JobDecision, SavepointContent
from headrace.model.job_messages import DeleteStates, SavepointTaken
from headrace.model.lifecycle import STREAM, ChangeStep, JobState, SavepointState, StreamState
from headrace.store import operations
from headrace.store.database import Tx
from headrace.store.jobs import job_changes, jobs, savepoints
from headrace.store.streams import stream_queries
from headrace.text.readable import describe_count, describe_duration

KIND = "job_prune"
"""Kind of the operations that wait for a deletion."""
_LOG = logging.getLogger("headrace.jobs")
_POLL_SECONDS = 0.5
_AT_ONCE = 100
"""Largest number of savepoints that one task deletes."""


def begin_pruning(tx: Tx, settings: Settings, job_id: str, session: JobSession) -> None:
    """Submit the deletion of the old savepoints of a job, if it has any.

    The newest savepoints stay, and those that are younger than the retention.
    """
    job = jobs.get(tx, job_id)
    assert job is not None
    old = savepoints.list_old(
        tx,
        job_id,
        kept=settings.jobs.savepoints_kept,
        seconds=settings.jobs.savepoint_retention.total_seconds(),
    )[:_AT_ONCE]
    if not old:
        return
    places = JobPlaces(job.state_location, job.name)
    checkpoints = {each.run: places.checkpoint(each.run) for each in old}
    checkpoints.pop(job.run or "", None)
    task = DeleteStates(directories=[*(each.place for each in old), *checkpoints.values()])
    session_id = open_check_session(tx, settings, job.owner, session)
    what = f"delete {describe_count(len(old), 'old savepoint')} of {job.name}"
    statement_id = submit_task(tx, job.owner, session_id, task, what)
    operations.insert_operation(tx, KIND, statement_id, actor=job.owner)


class Pruner:
    """Records which savepoints a driver has deleted."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._lease_seconds = context.lease_seconds
        self._actor = context.node_id

    def advance(self, lease: OperationLease, statement_id: str) -> float | None:
        """Record the deletion when its task has ended. See `Advance`."""
        with self._database.read() as tx:
            ended = read_end(tx, statement_id)
        if ended is None:
            return _POLL_SECONDS
        with self._database.write("operation.prune") as tx:
            if not operations.renew(tx, lease, self._lease_seconds):
                raise LeaseLost(f"Operation {lease.id} has another node.")
            if ended.failure is not None:
                # The savepoints stay old: the next deployment of the job tries again.
                _LOG.warning("savepoints were not deleted: %s", ended.failure.message)
            else:
                self._mark(tx, statement_id)
            operations.finish(tx, lease)
        return None

    def _mark(self, tx: Tx, statement_id: str) -> None:
        task = jobs.get_task(tx, statement_id)
        assert isinstance(task, DeleteStates)
        for savepoint_id in savepoints.list_at(tx, task.directories):
            savepoints.move(tx, savepoint_id, SavepointState.PRUNED, actor=self._actor)


STOPPING = frozenset({JobAction.STOP, JobAction.DELETE})
"""Actions after which no query of the job runs."""


class StepResult(StrEnum):
    """What a step has done."""

    ADVANCED = "advanced"
    WAITS = "waits"  # for a driver


class StepEffects:
    """Ends a step: the change goes on, waits for a task, or returns to the old version."""

    def __init__(self, settings: Settings, node_id: str) -> None:
        """Create the steps of a node."""
        self.settings = settings
        self.actor = node_id

    def submit(
        self,
        tx: Tx,
        change: JobChange,
        submit: Callable[[Tx, Settings, JobChange], ChangeRecord],
    ) -> StepResult:
        """Submit a task of the change."""
        job_changes.save_record(tx, change, submit(tx, self.settings, change))
        return StepResult.WAITS

    def read_task(self, tx: Tx, change: JobChange) -> EndedTask | None:
        """Return the end of the task of the step; None: no task is submitted yet."""
        task_id = change.record.task_id
        return None if task_id is None else read_end(tx, task_id)

    def open_session(self, tx: Tx, change: JobChange, version: JobVersion) -> str | None:
        """Return the session in which a version can run now; None: ask again a moment later.

        Raises:
            SessionConflict: A session with another configuration has the name, and stays.
        """
        wanted = version.spec.session
        session_id = open_session(tx, self.settings, change.owner, wanted)
        limit = self.settings.jobs.proof_timeout.total_seconds()
        if session_id is None and job_changes.seconds_in_step(tx, change.id) > limit:
            raise SessionConflict(
                f"The session {wanted.name} has another configuration, and is still in use after"
                f" {describe_duration(limit)} (jobs.proof_timeout).",
                hint="headrace stream list and headrace statement list show what uses it.",
            )
        return session_id

    def undo(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        """Stop the queries of the new version, and return to the old one."""
        stop_queries(tx, change.record.new_query_ids, actor=self.actor)
        job_changes.step(
            tx,
            change,
            ChangeStep.UNDOING,
            actor=self.actor,
            record=without_task(change.record),
            failure=failure,
        )
        return StepResult.ADVANCED

    def go_on(
        self, tx: Tx, change: JobChange, target: ChangeStep, record: ChangeRecord | None = None
    ) -> StepResult:
        """Move the change to its next step."""
        job_changes.step(tx, change, target, actor=self.actor, record=record)
        return StepResult.ADVANCED

    def keep(self, tx: Tx, change: JobChange, record: ChangeRecord) -> StepResult:
        """Keep what the step has done so far, and repeat it."""
        job_changes.save_record(tx, change, record)
        return StepResult.WAITS

    def move_job(
        self,
        tx: Tx,
        change: JobChange,
        target: JobState,
        *,
        failure: Failure | None = None,
        deployed: jobs.Deployed | None = None,
    ) -> None:
        """Change the state of the job. See `jobs.transition`."""
        job = jobs.lock(tx, change.job_id)
        assert job is not None
        jobs.transition(tx, job, target, actor=self.actor, failure=failure, deployed=deployed)


def without_task(record: ChangeRecord, *, attempts: int | None = None) -> ChangeRecord:
    """Return a record whose step has no task in progress."""
    update: dict[str, object] = {"task_id": None}
    if attempts is not None:
        update["task_attempts"] = attempts
    return record.model_copy(update=update)


def state_without_new_version(record: ChangeRecord) -> JobState:
    """Return the state of a job whose change has failed and whose old version did not run."""
    if record.action in STOPPING or record.was is JobState.STOPPED:
        return JobState.STOPPED
    return JobState.FAILED


_TASK_ATTEMPTS = 3
_COPYING = {JobAction.SAVEPOINT, JobAction.STOP, JobAction.DELETE}
_KEEPING_MANIFEST = {JobAction.SAVEPOINT, JobAction.START}


class ChangeSteps(StepEffects):
    """The transactions of the steps. Each takes the change as the transaction has read it."""

    def stop_old(self, tx: Tx, change: JobChange) -> StepResult:
        """Request the end of the queries of the old version."""
        record = change.record
        if record.action in STOPPING:
            is_deleted = record.action is JobAction.DELETE
            stop_schedule(tx, get_job(tx, change), is_deleted=is_deleted, actor=self.actor)
        live = stop_job(tx, change.owner, change.name, actor=self.actor)
        old = list(dict.fromkeys([*record.old_query_ids, *live]))
        target = ChangeStep.STOP_WANTED if live else ChangeStep.STOPPED
        return self.go_on(tx, change, target, record.model_copy(update={"old_query_ids": old}))

    def has_old_ended(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the queries of the old version have ended."""
        is_live = stream_queries.has_live(tx, change.owner, change.name)
        return not is_live and have_ended(tx, change.record.old_query_ids)

    def confirm_stop(self, tx: Tx, change: JobChange) -> StepResult:
        """Continue when no query of the old version is live."""
        return self.go_on(tx, change, ChangeStep.STOPPED)

    def has_task_ended(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the change waits for no task of a driver."""
        task_id = change.record.task_id
        return task_id is None or read_end(tx, task_id) is not None

    def save(self, tx: Tx, change: JobChange) -> StepResult:
        """Copy the state of the old run to a savepoint."""
        record = change.record
        if not record.takes_savepoint:
            return self.go_on(tx, change, ChangeStep.VERIFIED)
        ended = self.read_task(tx, change)
        if ended is None:
            return self.submit(tx, change, submit_savepoint)
        if ended.failure is not None:
            return self._repeat_copy(tx, change, ended.failure)
        assert isinstance(ended.outcome, SavepointTaken)
        return self._accept_copy(tx, change, ended.outcome.content)

    def _repeat_copy(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        """Copy the state once more. In the end, do without the copy if the change allows it."""
        record = change.record
        assert record.savepoint_id is not None
        savepoints.move(tx, record.savepoint_id, SavepointState.BROKEN, actor=self.actor)
        if record.task_attempts < _TASK_ATTEMPTS:
            return self.keep(tx, change, without_task(record))
        if _is_needed(record):
            return self.undo(tx, change, failure)
        return self._go_on_without_copy(tx, change)

    def _accept_copy(self, tx: Tx, change: JobChange, content: SavepointContent) -> StepResult:
        record = change.record
        assert record.savepoint_id is not None
        state = SavepointState.VERIFIED if content.files else SavepointState.BROKEN
        savepoints.move(tx, record.savepoint_id, state, actor=self.actor, content=content)
        if content.files:
            record = without_task(record, attempts=0)
            return self.go_on(tx, change, ChangeStep.VERIFIED, record)
        if _is_needed(record) and self._has_committed(tx, change):
            return self.undo(tx, change, _describe_missing(tx, change))
        # The old run has never begun a batch, or its state is lost and not needed.
        return self._go_on_without_copy(tx, change)

    def _has_committed(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the store knows of a batch of the old run."""
        version = get_version(tx, change.record.old_version_id)
        return bool(self._find_last_batches(tx, change, version))

    def _find_last_batches(self, tx: Tx, change: JobChange, version: JobVersion) -> dict[str, int]:
        """Return the last batch of each query of a version in the old run, by name."""
        run, job = change.record.old_run, get_job(tx, change)
        if run is None:
            return {}
        places = JobPlaces(identity_of(job), job.name)
        checkpoints = [places.checkpoint_of(run, query) for query in version.spec.queries]
        return stream_queries.find_last_batches(tx, change.owner, checkpoints)

    def _go_on_without_copy(self, tx: Tx, change: JobChange) -> StepResult:
        record = without_task(change.record, attempts=0)
        restores = record.restores and record.restore_id is not None
        record = record.model_copy(update={"savepoint_id": None, "restores": restores})
        return self.go_on(tx, change, ChangeStep.VERIFIED, record)

    def restore(self, tx: Tx, change: JobChange) -> StepResult:
        """Copy the savepoint to the checkpoint of the new run, or end a job that is to stop."""
        record = change.record
        if record.action is JobAction.DELETE:
            return self.go_on(tx, change, ChangeStep.PROVEN)
        if record.action is JobAction.STOP or not _runs_afterwards(record):
            failure = None if record.action is JobAction.STOP else get_job(tx, change).failure
            self.move_job(tx, change, state_without_new_version(record), failure=failure)
            return self.go_on(tx, change, ChangeStep.APPLIED)
        if not record.restores:
            return self.go_on(tx, change, ChangeStep.RESTORED)
        return self._restore_run(tx, change)

    def _restore_run(self, tx: Tx, change: JobChange) -> StepResult:
        record = change.record
        ended = self.read_task(tx, change)
        if ended is None:
            version = get_version(tx, record.new_version_id)
            try:
                session_id = self.open_session(tx, change, version)
            except SessionConflict as error:
                return self.undo(tx, change, Failure.of(error))
            if session_id is not None:
                submitted = submit_restore(tx, change, session_id)
                job_changes.save_record(tx, change, submitted)
            return StepResult.WAITS
        if ended.failure is not None:
            return self._repeat_restore(tx, change, ended.failure)
        return self.go_on(tx, change, ChangeStep.RESTORED, without_task(record, attempts=0))

    def _repeat_restore(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        """Restore a savepoint once more, or return to the old version."""
        record = change.record
        source = record.restore_id or record.savepoint_id
        if failure.code == "savepoint_broken" and source is not None:
            savepoints.move(tx, source, SavepointState.BROKEN, actor=self.actor)
        elif record.task_attempts < _TASK_ATTEMPTS:
            return self.keep(tx, change, without_task(record))
        return self.undo(tx, change, failure)

    def start_new(self, tx: Tx, change: JobChange) -> StepResult:
        """Start the queries of the new version."""
        record, job = change.record, get_job(tx, change)
        version = get_version(tx, record.new_version_id)
        if version.spec.batch is not None:
            start_schedule(tx, job, version)
            return self.go_on(tx, change, ChangeStep.STARTED)
        assert record.new_run is not None
        try:
            session_id = self.open_session(tx, change, version)
            if session_id is None:
                return StepResult.WAITS
            started = start_queries(
                tx,
                version,
                job,
                run=record.new_run,
                session_id=session_id,
                last_batches=self._last_batches(tx, change),
                actor=self.actor,
            )
        except HeadraceError as error:
            return self.undo(tx, change, Failure.of(error))
        planned = self._planned_batches(tx, change)
        update = {
            "new_query_ids": started.ids,
            "base_batches": started.base_batches,
            "planned_batches": {
                query_id: planned[query.directory]
                for query_id, query in zip(started.ids, version.spec.queries, strict=True)
                if query.directory in planned
            },
        }
        return self.go_on(tx, change, ChangeStep.STARTED, record.model_copy(update=update))

    def has_news(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the new version is proven, or has failed."""
        verdict = self._judge(tx, change)
        return verdict.is_proven or verdict.failure is not None

    def prove(self, tx: Tx, change: JobChange) -> StepResult:
        """Accept the new version, or return to the old one."""
        verdict = self._judge(tx, change)
        if verdict.failure is not None:
            return self.undo(tx, change, verdict.failure)
        return self.go_on(tx, change, ChangeStep.PROVEN)

    def write_manifest(self, tx: Tx, change: JobChange) -> StepResult:
        """Write the manifest of the new version, or delete that of a deleted job; then end."""
        record = change.record
        version_id = record.new_version_id or record.old_version_id
        keeps = record.action in _KEEPING_MANIFEST and version_id == record.old_version_id
        if keeps or version_id is None:
            return self._finish(tx, change, None)
        ended = self.read_task(tx, change)
        if ended is None:
            return self.submit(tx, change, submit_manifest)
        if ended.failure is not None and record.task_attempts < _TASK_ATTEMPTS:
            return self.keep(tx, change, without_task(record))
        return self._finish(tx, change, ended.failure)

    def finish_proven(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        """End a change whose new version works, although its last step cannot be made."""
        return self._finish(tx, change, failure, prunes=False)

    def _finish(
        self, tx: Tx, change: JobChange, failure: Failure | None, *, prunes: bool = True
    ) -> StepResult:
        """End a change whose new version works.

        Args:
            failure: Why the manifest could not be written.
            prunes: Whether old savepoints and checkpoints are deleted.
        """
        record = change.record
        if record.action is JobAction.DELETE:
            self.move_job(tx, change, JobState.DELETED)
            step = ChangeStep.APPLIED if failure is None else ChangeStep.FAILED
            job_changes.step(tx, change, step, actor=self.actor, failure=failure)
            return StepResult.ADVANCED
        queries = lock_sessions_of(tx, record.new_query_ids)
        errors = [query.last_error for query in queries if query.state is StreamState.FAILED]
        if self._is_batch(tx, record.new_version_id):
            target, reason = JobState.RUNNING, failure
        elif errors:
            target, reason = JobState.FAILED, errors[0]
        elif all(query.state in STREAM.terminal for query in queries):
            target, reason = JobState.STOPPED, failure
        else:
            target, reason = JobState.RUNNING, failure
        assert record.new_version_id is not None
        self.move_job(
            tx,
            change,
            target,
            failure=reason,
            deployed=jobs.Deployed(record.new_version_id, record.new_run),
        )
        from_state = (record.restore_id or record.savepoint_id) if record.restores else None
        if record.new_version_id == record.old_version_id:
            # The version continues a state of its own, and where it came from stays as it is.
            from_state = None
        jobs.set_outcome(
            tx,
            record.new_version_id,
            outcome="deployed",
            last_run=record.new_run,
            from_state=from_state,
        )
        if prunes:
            version = get_version(tx, record.new_version_id)
            begin_pruning(tx, self.settings, change.job_id, version.spec.session)
        step = ChangeStep.APPLIED if failure is None else ChangeStep.FAILED
        job_changes.step(tx, change, step, actor=self.actor, failure=failure)
        return StepResult.ADVANCED

    def _is_batch(self, tx: Tx, version_id: str | None) -> bool:
        version = jobs.get_version(tx, version_id)
        return version is not None and version.spec.batch is not None

    def _judge(self, tx: Tx, change: JobChange) -> Verdict:
        return judge_queries(
            tx,
            change.record,
            self.settings.jobs,
            waited_seconds=job_changes.seconds_in_step(tx, change.id),
        )

    def _last_batches(self, tx: Tx, change: JobChange) -> dict[str, int]:
        """Return the last batch of each directory from which the new run continues."""
        record = change.record
        if record.new_run == record.old_run:
            version = get_version(tx, record.new_version_id)
            last = self._find_last_batches(tx, change, version)
            directories = {query.name: query.directory for query in version.spec.queries}
            return {directories[name]: last[name] for name in last if name in directories}
        content = self._find_content(tx, change) if record.restores else None
        return {} if content is None else dict(content.last_batches)

    def _planned_batches(self, tx: Tx, change: JobChange) -> dict[str, int]:
        """Return the last batch with offsets in each directory that was copied."""
        record = change.record
        continues = record.restores or record.new_run == record.old_run
        content = self._find_content(tx, change) if continues else None
        return {} if content is None else dict(content.planned_batches)

    def _find_content(self, tx: Tx, change: JobChange) -> SavepointContent | None:
        """Return the content of the savepoint that a change restores or takes, or None."""
        source = change.record.restore_id or change.record.savepoint_id
        savepoint = None if source is None else savepoints.get(tx, source)
        return None if savepoint is None else savepoint.content


def _is_needed(record: ChangeRecord) -> bool:
    """Return whether a change fails without the copy of the old state."""
    is_restored = record.restores and record.restore_id is None
    return is_restored or record.was is JobState.RUNNING or record.action in _COPYING


def _describe_missing(tx: Tx, change: JobChange) -> Failure:
    """Return the failure of a savepoint whose checkpoint has no files although batches ran."""
    job = get_job(tx, change)
    return Failure.of(
        JobStateMissing(
            f"The driver finds no checkpoint of the job {job.name} below {job.state_location},"
            " although the job has committed batches.",
            hint="Make sure that every driver of the job reaches the state location.",
        )
    )


def _runs_afterwards(record: ChangeRecord) -> bool:
    """Return whether the job is to run when the change has ended."""
    return record.action is not JobAction.SAVEPOINT or record.was is JobState.RUNNING


_CLEAN = {JobDecision.START_CLEAN, JobDecision.RESTART_CLEAN}


class UndoSteps(StepEffects):
    """The transactions of the steps after a failure."""

    def has_new_ended(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the queries of the new version have ended."""
        return have_ended(tx, change.record.new_query_ids)

    def start_old(self, tx: Tx, change: JobChange) -> StepResult:
        """Let the old version continue, if it ran before."""
        record = change.record
        queries = lock_sessions_of(tx, record.new_query_ids)
        record = record.model_copy(update={"written": list_written(queries, record.base_batches)})
        run = _choose_run(tx, record)
        failure: Failure | None = None
        if record.was is JobState.RUNNING and record.action not in STOPPING:
            version = get_version(tx, record.old_version_id)
            try:
                if version.spec.batch is not None:
                    start_schedule(tx, get_job(tx, change), version)
                else:
                    session_id = self.open_session(tx, change, version)
                    if session_id is None:
                        return StepResult.WAITS
                    assert run is not None
                    self._start_version(tx, change, version, run, session_id)
                target = JobState.RUNNING
            except HeadraceError as error:
                failure, target = Failure.of(error), JobState.FAILED
        else:
            target = state_without_new_version(record)
        self.move_job(
            tx,
            change,
            target,
            failure=failure or change.failure,
            deployed=jobs.Deployed(record.old_version_id, run),
        )
        self._set_outcomes(tx, record, run)
        return self.go_on(tx, change, ChangeStep.FAILED, record)

    def leave_failed(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        """End a change that cannot return to the old version, and leave its job failed."""
        record = change.record
        deployed = jobs.Deployed(record.old_version_id, _choose_run(tx, record))
        self.move_job(tx, change, JobState.FAILED, failure=failure, deployed=deployed)
        return self.go_on(tx, change, ChangeStep.FAILED, record)

    def _set_outcomes(self, tx: Tx, record: ChangeRecord, run: str | None) -> None:
        if record.new_version_id is not None and record.new_version_id != record.old_version_id:
            # The sinks of another lineage may have batches of the run that has failed.
            has_begun = record.is_other_lineage and bool(record.new_query_ids)
            jobs.set_outcome(
                tx,
                record.new_version_id,
                outcome="failed",
                last_run=record.new_run if has_begun else None,
                from_state=record.restore_id if has_begun else None,
            )
        if record.old_version_id is not None:
            jobs.set_outcome(
                tx, record.old_version_id, outcome="deployed", last_run=run, from_state=None
            )

    def _start_version(
        self, tx: Tx, change: JobChange, version: JobVersion, run: str, session_id: str
    ) -> None:
        """Start the old version again. Raise as `start_queries` does."""
        job, record = get_job(tx, change), change.record
        # Batches of a run that does not continue the old one say nothing about its checkpoint.
        newer = record.new_query_ids if run == record.new_run else []
        ended = lock_sessions_of(tx, [*record.old_query_ids, *newer])
        directories = {query.name: query.directory for query in version.spec.queries}
        last = {
            directories[query.name]: query.last_batch
            for query in ended
            if query.name in directories and query.last_batch is not None
        }
        start_queries(
            tx,
            version,
            job,
            run=run,
            session_id=session_id,
            last_batches=last,
            actor=self.actor,
        )


def _choose_run(tx: Tx, record: ChangeRecord) -> str | None:
    """Return the run in which the old version continues, or can be started later.

    It is the new run if that was started and continues the state of the old one: sinks would skip
    the next batches of the old run. The new run may have committed batches that its driver, if it
    is lost, has not reported.
    """
    if not record.new_query_ids or record.decision in _CLEAN or record.is_other_lineage:
        return record.old_run
    new = get_version(tx, record.new_version_id)
    old = get_version(tx, record.old_version_id)
    if new.version == old.version or judge_versions(new.spec, old.spec).is_compatible:
        return record.new_run
    return record.old_run
