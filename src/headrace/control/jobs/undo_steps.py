"""The steps with which a change returns to the old version. job_changer.py calls them."""

from __future__ import annotations

from headrace.control.jobs.change_tasks import get_job, get_version
from headrace.control.jobs.decisions import judge_versions
from headrace.control.jobs.job_queries import (
    have_ended,
    list_written,
    lock_sessions_of,
    start_queries,
)
from headrace.control.jobs.step_effects import (
    STOPPING,
    StepEffects,
    StepResult,
    state_without_new_version,
)
from headrace.errors import HeadraceError
from headrace.model.deployment import ChangeRecord, JobChange, JobVersion
from headrace.model.failure import Failure
from headrace.model.job import JobDecision
from headrace.model.lifecycle import ChangeStep, JobState
from headrace.store.database import Tx
from headrace.store.jobs import jobs

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
            assert run is not None
            try:
                session_id = self.open_session(tx, change, version)
                if session_id is None:
                    return StepResult.WAITS
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
