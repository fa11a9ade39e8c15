"""How a statement ends: what its driver reports, checked, and where its rows may be kept."""

from __future__ import annotations

from headrace.control.driver_link.table_journal import mark_committed
from headrace.errors import InvalidResult, StatementFailed
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Ended
from headrace.model.result import Disposition, ResultReport, ResultRequest
from headrace.model.session import DriverLease
from headrace.model.statement import Statement
from headrace.results.manifest import check_report
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.statements import results, statement_transitions, statements
from headrace.store.statements.locks import LockedStatement

_NO_REASON = Failure.of(StatementFailed("The driver did not report why the statement failed."))


def check_result(message: Ended) -> tuple[ResultReport | None, Failure | None]:
    """Return the checked result of a success, or the failure if the result is not valid."""
    if message.result is None:
        return None, None
    try:
        return check_report(message.result), None
    except InvalidResult as error:
        return None, Failure.of(error)


def choose_disposition(tx: Tx, statement: Statement) -> ResultRequest:
    """Return the result request of a statement, as its driver can fulfil it.

    Not every driver can hold a `memory` result. The result is then kept as with `auto`.
    """
    request = statement.spec.result_request
    if request.disposition is not Disposition.MEMORY:
        return request
    if results.flight_host_of(tx, statement.session_id) is not None:
        return request
    return request.model_copy(update={"disposition": Disposition.AUTO})


def check_holder(tx: Tx, message: Ended) -> Failure | None:
    """Return the failure of a driver that holds a result without a request to do so, or None.

    A driver that holds results is not idle.
    """
    if message.result is None or message.result.disposition is not Disposition.MEMORY:
        return None
    statement = statements.get(tx, message.statement_id)
    request = None if statement is None else choose_disposition(tx, statement)
    if request is not None and request.disposition is Disposition.MEMORY:
        return None
    return Failure.of(InvalidResult("The driver holds a result that it was not asked to hold."))


def accept_outcome(
    tx: Tx, message: Ended, invalid: Failure | None
) -> tuple[StatementState, Failure | None]:
    """Return the state and the failure to store. Only a requested cancel ends as `cancelled`.

    Args:
        invalid: Why the reported result is not valid; None if it is valid.
    """
    if invalid is not None:
        return StatementState.FAILED, invalid
    if message.state is StatementState.SUCCESS:
        return message.state, None
    if message.state is StatementState.FAILED:
        return message.state, message.failure or _NO_REASON
    statement = statements.get(tx, message.statement_id)
    if statement is None or statement.state is not StatementState.CANCELLING:
        return StatementState.FAILED, message.failure or _NO_REASON
    return statement_transitions.outcome_of_cancel(statement.cancel_reason)


def save_report(
    tx: Tx, lease: DriverLease, message: Ended, locked: LockedStatement, *, grace_seconds: float
) -> None:
    """Store what a driver reports beside the state and the result of a statement that has ended."""
    if message.committed is not None:
        mark_committed(
            tx, lease, message.committed, message.statement_id, grace_seconds=grace_seconds
        )
    if message.snapshot is not None:
        sessions.save_snapshot(tx, lease.session_id, message.snapshot)
    statement_transitions.set_outcome(
        tx,
        message.statement_id,
        atomic=message.atomic,
        note=message.note,
        # A query writes no rows, whatever its driver says.
        rows_written=None if locked.is_query else message.rows_written,
    )
