"""The change of one job, step by step. DESIGN 7 and the seed's graph decide which steps it has.

Each step is one transaction under the lease of the operation. What a step starts outside the store
(a task of a driver, a query) is named in the record of the change before it starts, so that the
next node finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headrace.control.context import NodeContext
from headrace.control.jobs.change_steps import ChangeSteps, StepResult, UndoSteps
from headrace.errors import LeaseLost, StoreUnavailable
from headrace.model.deployment import JobChange, OperationLease
from headrace.model.failure import Failure
from headrace.model.lifecycle import CHANGE, ChangeStep
from headrace.store import operations
from headrace.store.database import Tx
from headrace.store.jobs import job_changes

KIND = "job_change"
"""Kind of the operations that change jobs."""
_POLL_SECONDS = 0.25
_STEP_ATTEMPTS = 5
"""Successive unexpected errors after which a change ends."""
_LOG_HINT = "The log of the node has the stack trace."
_LOG = logging.getLogger("headrace.jobs")


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
        self._attempts: dict[str, int] = {}
        """Successive unexpected errors by change."""
        steps = self._steps = ChangeSteps(context.settings, context.node_id)
        self._undo = UndoSteps(context.settings, context.node_id)
        self._handlers = {
            ChangeStep.PLANNED: _Handlers(_always, steps.stop_old),
            ChangeStep.STOP_WANTED: _Handlers(steps.has_old_ended, steps.confirm_stop),
            ChangeStep.STOPPED: _Handlers(steps.has_task_ended, steps.save),
            ChangeStep.VERIFIED: _Handlers(steps.has_task_ended, steps.restore),
            ChangeStep.RESTORED: _Handlers(_always, steps.start_new),
            ChangeStep.STARTED: _Handlers(steps.has_news, steps.prove),
            ChangeStep.PROVEN: _Handlers(steps.has_task_ended, steps.write_manifest),
            ChangeStep.UNDOING: _Handlers(self._undo.has_new_ended, self._undo.start_old),
        }

    def advance(self, lease: OperationLease, change_id: str) -> float | None:
        """Make the next step of a change if it is due. See `Advance`.

        A step that raises an unexpected error again and again ends the change.
        """
        try:
            seconds = self._advance(lease, change_id)
        except (LeaseLost, StoreUnavailable):
            raise
        except Exception as error:
            attempts = self._attempts.get(change_id, 0) + 1
            self._attempts[change_id] = attempts
            if attempts < _STEP_ATTEMPTS:
                raise
            _LOG.exception("change %s: a step has failed %d times", change_id, attempts)
            seconds = self._give_up(lease, change_id, error)
        self._attempts.pop(change_id, None)
        return seconds

    def _advance(self, lease: OperationLease, change_id: str) -> float | None:
        with self._database.read() as tx:
            change = job_changes.get(tx, change_id)
            if change is not None and not self._knows(change.step):
                raise LeaseLost(f"Change {change_id} has the step {change.step} of a newer node.")
            is_due = change is None or self._is_due(tx, change)
        if not is_due:
            return _POLL_SECONDS
        return self._make_step(lease, change_id, self._advance_step)

    def _advance_step(self, tx: Tx, change: JobChange) -> StepResult:
        return self._handlers[change.step].advance(tx, change)

    def _make_step(
        self,
        lease: OperationLease,
        change_id: str,
        advance: Callable[[Tx, JobChange], StepResult],
    ) -> float | None:
        """Make a step in a transaction of its own. Return the seconds until the next one."""
        with self._database.write("operation.step") as tx:
            if not operations.renew(tx, lease, self._lease_seconds):
                raise LeaseLost(f"Operation {lease.id} has another node.")
            change = job_changes.get(tx, change_id)
            if change is None or change.step in CHANGE.terminal:
                operations.finish(tx, lease)
                return None
            return _POLL_SECONDS if advance(tx, change) is StepResult.WAITS else 0.0

    def _give_up(self, lease: OperationLease, change_id: str, error: Exception) -> float | None:
        """Return to the old version, or leave a job failed that cannot return either."""
        failure = Failure(
            code="internal_error", message=f"A step of the change failed: {error}", hint=_LOG_HINT
        )

        def end(tx: Tx, change: JobChange) -> StepResult:
            if CHANGE.allows(change.step, ChangeStep.UNDOING):
                return self._undo.undo(tx, change, failure)
            if change.step is ChangeStep.PROVEN:
                return self._steps.finish_proven(tx, change, failure)
            return self._undo.leave_failed(tx, change, failure)

        return self._make_step(lease, change_id, end)

    def _knows(self, step: ChangeStep) -> bool:
        """Return whether this version of Headrace has the step. A newer node may write others."""
        return step in CHANGE.transitions

    def _is_due(self, tx: Tx, change: JobChange) -> bool:
        return change.step in CHANGE.terminal or self._handlers[change.step].is_due(tx, change)


def _always(_tx: Tx, _change: JobChange) -> bool:
    return True
