"""What the steps of a change have in common: the writes with which a step ends."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from headrace.config.settings import Settings
from headrace.control.jobs.job_queries import stop_queries
from headrace.control.jobs.job_sessions import open_session
from headrace.control.jobs.tasks import EndedTask, read_end
from headrace.errors import SessionConflict
from headrace.model.deployment import ChangeRecord, JobAction, JobChange, JobVersion
from headrace.model.failure import Failure
from headrace.model.lifecycle import ChangeStep, JobState
from headrace.store.database import Tx
from headrace.store.jobs import job_changes, jobs
from headrace.text.times import describe_duration

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
