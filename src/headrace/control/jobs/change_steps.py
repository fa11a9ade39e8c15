"""The steps of the change of a job. job_changer.py calls them in the order of the lifecycle."""

from __future__ import annotations

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
    lock_sessions_of,
    start_queries,
    stop_job,
)
from headrace.control.jobs.places import JobPlaces, identity_of
from headrace.control.jobs.pruning import begin_pruning
from headrace.control.jobs.step_effects import (
    StepEffects,
    StepResult,
    state_without_new_version,
    without_task,
)
from headrace.control.jobs.tasks import read_end
from headrace.errors import HeadraceError, JobStateMissing, SessionConflict
from headrace.model.deployment import ChangeRecord, JobAction, JobChange, JobVersion
from headrace.model.failure import Failure
from headrace.model.job import SavepointContent
from headrace.model.job_messages import SavepointTaken
from headrace.model.lifecycle import STREAM, ChangeStep, JobState, SavepointState, StreamState
from headrace.store.database import Tx
from headrace.store.jobs import job_changes, jobs, savepoints
from headrace.store.streams import stream_queries

_TASK_ATTEMPTS = 3
_COPYING = {JobAction.SAVEPOINT, JobAction.STOP, JobAction.DELETE}
_KEEPING_MANIFEST = {JobAction.SAVEPOINT, JobAction.START}


class ChangeSteps(StepEffects):
    """The transactions of the steps. Each takes the change as the transaction has read it."""

    def stop_old(self, tx: Tx, change: JobChange) -> StepResult:
        """Request the end of the queries of the old version."""
        record = change.record
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
        update = {"new_query_ids": started.ids, "base_batches": started.base_batches}
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
        if errors:
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

    def _judge(self, tx: Tx, change: JobChange) -> Verdict:
        return judge_queries(
            tx,
            change.record.new_query_ids,
            change.record.base_batches,
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
        source = record.restore_id or record.savepoint_id
        if record.restores and source is not None:
            savepoint = savepoints.get(tx, source)
            content = None if savepoint is None else savepoint.content
            return {} if content is None else dict(content.last_batches)
        return {}


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
