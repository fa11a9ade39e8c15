"""The deletion of old savepoints, and of the checkpoints from which they were copied."""

from __future__ import annotations

import logging

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.jobs.job_sessions import open_check_session
from headrace.control.jobs.places import JobPlaces
from headrace.control.jobs.tasks import read_end, submit_task
from headrace.errors import LeaseLost
from headrace.model.deployment import JobSession, OperationLease
from headrace.model.job_messages import DeleteStates
from headrace.model.lifecycle import SavepointState
from headrace.store import operations
from headrace.store.database import Tx
from headrace.store.jobs import jobs, savepoints
from headrace.text.printable import describe_count

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
