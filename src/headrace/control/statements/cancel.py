"""Cancel requests: durable, and answered by the driver of the statement."""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.policy import Action, Caller
from headrace.control.sessions.takeover import Takeovers
from headrace.control.statements.lookup import get_permitted, get_statement
from headrace.errors import AlreadyEnded, NotCancellable
from headrace.model.lifecycle import STATEMENT
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.store import nodes
from headrace.store.database import Tx
from headrace.store.statements import statement_transitions
from headrace.store.statements.time_limits import (
    UnansweredCancel,
    set_cancel_note,
    unanswered_cancels,
)
from headrace.store.streams import stream_queries


def request_cancel(tx: Tx, caller: Caller, statement_id: str, *, force: bool = False) -> Statement:
    """Request a cancel and return the statement.

    Requesting it again while the statement is cancelling is not an error. A waiting statement is
    cancelled at once; a statement in flight becomes `cancelling` first.

    Args:
        force: Whether a driver that does not stop the statement in time is killed even if other
            work runs in it.

    Raises:
        StatementNotFound: If the caller has no such statement.
        AlreadyEnded: With the state in which the statement ended.
        NotCancellable: If a node executes the statement itself.
        Committing: If the statement is publishing its table.
    """
    statement = get_permitted(tx, caller, statement_id, Action.CHANGE)
    if statement.state in STATEMENT.terminal:
        query = stream_queries.of_statement(tx, statement.id)
        raise AlreadyEnded(
            f"Statement {statement.id} cannot be cancelled: it has ended ({statement.state}).",
            hint=None if query is None else f"To stop its query: STOP STREAM `{query.name}`.",
        )
    if statement.spec.kind is SessionKind.LOCAL:
        raise NotCancellable(
            f"Statement {statement.id} cannot be cancelled: a node executes it in one step."
        )
    statement_transitions.request_cancel(tx, statement.id, actor=caller.actor, force=force)
    return get_statement(tx, statement.id)


_BATCH = 100
_SHARED_DRIVER = (
    "The driver has not stopped the statement, and other work runs in the same driver. "
    "To end that work too, cancel with force."
)


class ForcedCancels:
    """Checks the cancels of the whole store. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext, takeovers: Takeovers) -> None:
        self._database = context.database
        self._node_id = context.node_id
        self._lease_seconds = context.lease_seconds
        self._grace_seconds = context.settings.lease.cancel_grace.total_seconds()
        self._takeovers = takeovers

    def run(self) -> None:
        """Kill each driver that has not stopped a cancelled statement in time, where allowed.

        The grace period does not count while the node is away: drivers cannot ask it for cancels.
        """
        with self._database.read() as tx:
            if not nodes.is_present(
                tx, self._node_id, self._lease_seconds, patience=self._grace_seconds
            ):
                return
            cancels = unanswered_cancels(tx, self._grace_seconds, _BATCH)
        for cancel in cancels:
            with isolate_errors(f"the cancel of {cancel.statement_id} could not be enforced"):
                self._enforce(cancel)

    def _enforce(self, cancel: UnansweredCancel) -> None:
        if cancel.alone or cancel.forced:
            self._kill_driver(cancel)
        elif not cancel.noted:
            with self._database.write("statement.note_cancel") as tx:
                set_cancel_note(tx, cancel.statement_id, _SHARED_DRIVER)

    def _kill_driver(self, cancel: UnansweredCancel) -> None:
        reason = f"it was killed because it did not stop {cancel.statement_id} after a cancel"
        # Another statement may have started in the driver since the query above.
        alone_with = None if cancel.forced else cancel.statement_id
        self._takeovers.declare_lost(cancel.lease, reason, only_if_alone_with=alone_with)
