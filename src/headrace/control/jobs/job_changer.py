"""The change of one job, step by step. DESIGN 7 and the seed's graph decide which steps it has.

Each step is one transaction under the lease of the operation. What a step starts outside the store
(a task of a driver, a query) is named in the record of the change before it starts, so that the
next node finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.control.context import NodeContext
from headrace.control.jobs.change_steps import ChangeSteps, StepResult
from headrace.errors import LeaseLost
from headrace.model.deployment import JobChange, OperationLease
from headrace.model.lifecycle import CHANGE, ChangeStep
from headrace.store import job_changes, operations
from headrace.store.database import Tx

KIND = "job_change"
"""Kind of the operations that change jobs."""
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Handlers:
    """The two halves of a step: whether it can be made, and its transaction."""

    is_due: Callable[[Tx, JobChange], bool]
    advance: Callable[[Tx, JobChange], StepResult]


class JobChanger:
    """Advances changes of jobs."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._lease_seconds = context.lease_seconds
        steps = ChangeSteps(context.settings, context.node_id)
        self._handlers = {
            ChangeStep.PLANNED: _Handlers(_always, steps.stop_old),
            ChangeStep.STOP_WANTED: _Handlers(steps.has_old_ended, steps.confirm_stop),
            ChangeStep.STOPPED: _Handlers(steps.has_task_ended, steps.save),
            ChangeStep.VERIFIED: _Handlers(steps.has_task_ended, steps.restore),
            ChangeStep.RESTORED: _Handlers(_always, steps.start_new),
            ChangeStep.STARTED: _Handlers(steps.has_news, steps.prove),
            ChangeStep.PROVEN: _Handlers(steps.has_task_ended, steps.write_manifest),
            ChangeStep.UNDOING: _Handlers(steps.has_new_ended, steps.start_old),
        }

    def advance(self, lease: OperationLease, change_id: str) -> float | None:
        """Make the next step of a change if it is due. See `Advance`."""
        with self._database.read() as tx:
            change = job_changes.get(tx, change_id)
            is_due = change is None or self._is_due(tx, change)
        if not is_due:
            return _POLL_SECONDS
        with self._database.write("operation.step") as tx:
            if not operations.renew(tx, lease, self._lease_seconds):
                raise LeaseLost(f"Operation {lease.id} has another node.")
            change = job_changes.get(tx, change_id)
            if change is None or change.step in CHANGE.terminal:
                operations.finish(tx, lease)
                return None
            result = self._handlers[change.step].advance(tx, change)
            return _POLL_SECONDS if result is StepResult.WAITS else 0.0

    def _is_due(self, tx: Tx, change: JobChange) -> bool:
        return change.step in CHANGE.terminal or self._handlers[change.step].is_due(tx, change)


def _always(_tx: Tx, _change: JobChange) -> bool:
    return True
