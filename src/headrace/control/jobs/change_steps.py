"""The steps of the change of a job. job_changer.py calls them in the order of the lifecycle."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from headrace.control.jobs.change_tasks import (
    get_job,
    get_version,
    submit_manifest,
    submit_restore,
    submit_savepoint,
)
from headrace.control.jobs.job_queries import (
    Verdict,
    have_ended,
    judge_queries,
    list_written,
    lock_sessions_of,
    start_queries,
    stop_queries,
)
from headrace.control.jobs.job_sessions import open_session
from headrace.control.jobs.places import JobPlaces
from headrace.control.jobs.pruning import begin_pruning
from headrace.control.jobs.tasks import EndedTask, read_end
from headrace.errors import HeadraceError
from headrace.model.deployment import (
    ChangeRecord,
    JobAction,
    JobChange,
    JobVersion,
)
from headrace.model.failure import Failure
from headrace.model.job import JobDecision
from headrace.model.job_messages import SavepointTaken
from headrace.model.lifecycle import STREAM, ChangeStep, JobState, SavepointState, StreamState
from headrace.settings import Settings
from headrace.store import job_changes, jobs, savepoints
from headrace.store.database import Tx

_TASK_ATTEMPTS = 3
_STOPPING = {JobAction.STOP, JobAction.DELETE}
_KEEPING_MANIFEST = {JobAction.SAVEPOINT, JobAction.START}


class StepResult(StrEnum):
    """What a step has done."""

    ADVANCED = "advanced"
    WAITS = "waits"  # for a driver


class ChangeSteps:
    """The transactions of the steps. Each takes the change as the transaction has read it."""

    def __init__(self, settings: Settings, node_id: str) -> None:
        self._settings = settings
        self._actor = node_id

    def stop_old(self, tx: Tx, change: JobChange) -> StepResult:
        """Request the end of the queries of the old version."""
        was_live = stop_queries(tx, change.record.old_query_ids, actor=self._actor)
        return self._step(tx, change, ChangeStep.STOP_WANTED if was_live else ChangeStep.STOPPED)

    def has_old_ended(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the queries of the old version have ended."""
        return have_ended(tx, change.record.old_query_ids)

    def confirm_stop(self, tx: Tx, change: JobChange) -> StepResult:
        """Continue when no query of the old version is live."""
        return self._step(tx, change, ChangeStep.STOPPED)

    def has_task_ended(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the change waits for no task of a driver."""
        task_id = change.record.task_id
        return task_id is None or read_end(tx, task_id) is not None

    def save(self, tx: Tx, change: JobChange) -> StepResult:
        """Copy the state of the old run to a savepoint."""
        record = change.record
        if not record.takes_savepoint:
            return self._step(tx, change, ChangeStep.VERIFIED)
        ended = self._read_task(tx, change)
        if ended is None:
            return self._submit(tx, change, submit_savepoint)
        assert record.savepoint_id is not None
        if ended.failure is not None:
            savepoints.move(tx, record.savepoint_id, SavepointState.BROKEN, actor=self._actor)
            if record.task_attempts < _TASK_ATTEMPTS:
                return self._keep(tx, change, _without_task(record))
            return self._undo(tx, change, ended.failure)
        assert isinstance(ended.outcome, SavepointTaken)
        content = ended.outcome.content
        state = SavepointState.VERIFIED if content.files else SavepointState.BROKEN
        savepoints.move(tx, record.savepoint_id, state, actor=self._actor, content=content)
        record = _without_task(record, attempts=0)
        if not content.files:
            # The old run has never begun a batch.
            restores = record.restores and record.restore_id is not None
            record = record.model_copy(update={"savepoint_id": None, "restores": restores})
        return self._step(tx, change, ChangeStep.VERIFIED, record)

    def restore(self, tx: Tx, change: JobChange) -> StepResult:
        """Copy the savepoint to the checkpoint of the new run, or end a job that is to stop."""
        record = change.record
        if record.action is JobAction.DELETE:
            return self._step(tx, change, ChangeStep.PROVEN)
        if record.action is JobAction.STOP or not _runs_afterwards(record):
            failure = None if record.action is JobAction.STOP else get_job(tx, change).failure
            self._move_job(tx, change, _state_without_new_version(record), failure=failure)
            return self._step(tx, change, ChangeStep.APPLIED)
        if not record.restores:
            return self._step(tx, change, ChangeStep.RESTORED)
        ended = self._read_task(tx, change)
        if ended is None:
            return self._submit(tx, change, submit_restore)
        if ended.failure is not None:
            return self._repeat_restore(tx, change, ended.failure)
        return self._step(tx, change, ChangeStep.RESTORED, _without_task(record, attempts=0))

    def _repeat_restore(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        """Restore a savepoint once more, or return to the old version."""
        record = change.record
        source = record.restore_id or record.savepoint_id
        if failure.code == "savepoint_broken" and source is not None:
            savepoints.move(tx, source, SavepointState.BROKEN, actor=self._actor)
        elif record.task_attempts < _TASK_ATTEMPTS:
            return self._keep(tx, change, _without_task(record))
        return self._undo(tx, change, failure)

    def start_new(self, tx: Tx, change: JobChange) -> StepResult:
        """Start the queries of the new version."""
        record, job = change.record, get_job(tx, change)
        version = get_version(tx, record.new_version_id)
        session_id = open_session(tx, self._settings, job.owner, version.spec.session)
        if session_id is None:
            return StepResult.WAITS
        assert record.new_run is not None
        try:
            started = start_queries(
                tx,
                version,
                JobPlaces(job.state_location, job.name),
                owner=job.owner,
                name=job.name,
                run=record.new_run,
                session_id=session_id,
                last_batches=self._last_batches(tx, change),
                actor=self._actor,
            )
        except HeadraceError as error:
            return self._undo(tx, change, Failure.of(error))
        update = {"new_query_ids": started.ids, "base_batches": started.base_batches}
        return self._step(tx, change, ChangeStep.STARTED, record.model_copy(update=update))

    def has_news(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the new version is proven, or has failed."""
        verdict = self._judge(tx, change)
        return verdict.is_proven or verdict.failure is not None

    def prove(self, tx: Tx, change: JobChange) -> StepResult:
        """Accept the new version, or return to the old one."""
        verdict = self._judge(tx, change)
        if verdict.failure is not None:
            return self._undo(tx, change, verdict.failure)
        return self._step(tx, change, ChangeStep.PROVEN)

    def write_manifest(self, tx: Tx, change: JobChange) -> StepResult:
        """Write the manifest of the new version, or delete that of a deleted job; then end."""
        record = change.record
        if record.action in _KEEPING_MANIFEST:
            return self._finish(tx, change, None)
        ended = self._read_task(tx, change)
        if ended is None:
            return self._submit(tx, change, submit_manifest)
        if ended.failure is not None and record.task_attempts < _TASK_ATTEMPTS:
            return self._keep(tx, change, _without_task(record))
        return self._finish(tx, change, ended.failure)

    def has_new_ended(self, tx: Tx, change: JobChange) -> bool:
        """Return whether the queries of the new version have ended."""
        return have_ended(tx, change.record.new_query_ids)

    def start_old(self, tx: Tx, change: JobChange) -> StepResult:
        """Let the old version continue, if it ran before."""
        record, job = change.record, get_job(tx, change)
        queries = lock_sessions_of(tx, record.new_query_ids)
        written = list_written(queries, record.base_batches)
        record = record.model_copy(update={"written": written})
        run = record.old_run
        if record.was is JobState.RUNNING and record.action not in _STOPPING:
            version = get_version(tx, record.old_version_id)
            session_id = open_session(tx, self._settings, job.owner, version.spec.session)
            if session_id is None:
                return StepResult.WAITS
            if written and record.decision is JobDecision.RESTART_FROM_SAVEPOINT:
                # The query is the same: its newest checkpoint is that of the new run.
                run = record.new_run
            assert run is not None
            failure = self._start_version(tx, change, version, run, session_id)
            target = JobState.RUNNING if failure is None else JobState.FAILED
        else:
            failure = None
            target = _state_without_new_version(record)
        self._move_job(
            tx,
            change,
            target,
            failure=failure or change.failure,
            deployed=jobs.Deployed(record.old_version_id, run),
        )
        if record.new_version_id is not None and record.new_version_id != record.old_version_id:
            jobs.set_outcome(
                tx, record.new_version_id, outcome="failed", last_run=None, from_state=None
            )
        return self._step(tx, change, ChangeStep.FAILED, record)

    def _start_version(
        self, tx: Tx, change: JobChange, version: JobVersion, run: str, session_id: str
    ) -> Failure | None:
        """Start the old version again. Return the failure if it cannot be started."""
        job = get_job(tx, change)
        ended = lock_sessions_of(tx, [*change.record.old_query_ids, *change.record.new_query_ids])
        directories = {query.name: query.directory for query in version.spec.queries}
        last = {
            directories[query.name]: query.last_batch
            for query in ended
            if query.name in directories and query.last_batch is not None
        }
        try:
            start_queries(
                tx,
                version,
                JobPlaces(job.state_location, job.name),
                owner=job.owner,
                name=job.name,
                run=run,
                session_id=session_id,
                last_batches=last,
                actor=self._actor,
            )
        except HeadraceError as error:
            return Failure.of(error)
        return None

    def _finish(self, tx: Tx, change: JobChange, failure: Failure | None) -> StepResult:
        """End a change whose new version works.

        Args:
            failure: Why the manifest could not be written.
        """
        record = change.record
        if record.action is JobAction.DELETE:
            self._move_job(tx, change, JobState.DELETED)
            return self._step(tx, change, ChangeStep.APPLIED)
        queries = lock_sessions_of(tx, record.new_query_ids)
        errors = [query.last_error for query in queries if query.state is StreamState.FAILED]
        if errors:
            target, reason = JobState.FAILED, errors[0]
        elif all(query.state in STREAM.terminal for query in queries):
            target, reason = JobState.STOPPED, failure
        else:
            target, reason = JobState.RUNNING, failure
        assert record.new_version_id is not None
        self._move_job(
            tx,
            change,
            target,
            failure=reason,
            deployed=jobs.Deployed(record.new_version_id, record.new_run),
        )
        from_state = (record.restore_id or record.savepoint_id) if record.restores else None
        jobs.set_outcome(
            tx,
            record.new_version_id,
            outcome="deployed",
            last_run=record.new_run,
            from_state=from_state,
        )
        version = get_version(tx, record.new_version_id)
        begin_pruning(tx, self._settings, change.job_id, version.spec.session)
        step = ChangeStep.APPLIED if failure is None else ChangeStep.FAILED
        job_changes.step(tx, change, step, actor=self._actor, failure=failure)
        return StepResult.ADVANCED

    def _submit(
        self,
        tx: Tx,
        change: JobChange,
        submit: Callable[[Tx, Settings, JobChange], ChangeRecord | None],
    ) -> StepResult:
        """Submit a task of the change, unless its session is being replaced."""
        record = submit(tx, self._settings, change)
        if record is not None:
            job_changes.save_record(tx, change, record)
        return StepResult.WAITS

    def _read_task(self, tx: Tx, change: JobChange) -> EndedTask | None:
        """Return the end of the task of the step; None: no task is submitted yet."""
        task_id = change.record.task_id
        return None if task_id is None else read_end(tx, task_id)

    def _judge(self, tx: Tx, change: JobChange) -> Verdict:
        return judge_queries(
            tx,
            change.record.new_query_ids,
            change.record.base_batches,
            self._settings.jobs,
            waited_seconds=job_changes.seconds_in_step(tx, change.id),
        )

    def _last_batches(self, tx: Tx, change: JobChange) -> dict[str, int]:
        """Return the last batch of each directory from which the new run continues."""
        record = change.record
        source = record.restore_id or record.savepoint_id
        if record.restores and source is not None:
            savepoint = savepoints.get(tx, source)
            content = None if savepoint is None else savepoint.content
            return {} if content is None else dict(content.last_batches)
        return {}

    def _undo(self, tx: Tx, change: JobChange, failure: Failure) -> StepResult:
        stop_queries(tx, change.record.new_query_ids, actor=self._actor)
        job_changes.step(
            tx,
            change,
            ChangeStep.UNDOING,
            actor=self._actor,
            record=_without_task(change.record),
            failure=failure,
        )
        return StepResult.ADVANCED

    def _step(
        self, tx: Tx, change: JobChange, target: ChangeStep, record: ChangeRecord | None = None
    ) -> StepResult:
        job_changes.step(tx, change, target, actor=self._actor, record=record)
        return StepResult.ADVANCED

    def _keep(self, tx: Tx, change: JobChange, record: ChangeRecord) -> StepResult:
        job_changes.save_record(tx, change, record)
        return StepResult.WAITS

    def _move_job(
        self,
        tx: Tx,
        change: JobChange,
        target: JobState,
        *,
        failure: Failure | None = None,
        deployed: jobs.Deployed | None = None,
    ) -> None:
        job = jobs.lock(tx, change.job_id)
        assert job is not None
        jobs.transition(tx, job, target, actor=self._actor, failure=failure, deployed=deployed)


def _without_task(record: ChangeRecord, *, attempts: int | None = None) -> ChangeRecord:
    update: dict[str, object] = {"task_id": None}
    if attempts is not None:
        update["task_attempts"] = attempts
    return record.model_copy(update=update)


def _runs_afterwards(record: ChangeRecord) -> bool:
    """Return whether the job is to run when the change has ended."""
    return record.action is not JobAction.SAVEPOINT or record.was is JobState.RUNNING


def _state_without_new_version(record: ChangeRecord) -> JobState:
    """Return the state of a job whose change has failed and whose old version did not run."""
    if record.action in _STOPPING or record.was is JobState.STOPPED:
        return JobState.STOPPED
    return JobState.FAILED
