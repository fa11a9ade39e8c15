"""How a statement ends: what its driver reports, checked."""

from __future__ import annotations

from headrace.errors import InvalidResult, StatementFailed
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Ended
from headrace.model.result import ResultReport
from headrace.results.report_check import check_report
from headrace.store import statement_transitions, statements
from headrace.store.database import Tx

_NO_REASON = Failure.of(StatementFailed("The driver did not report why the statement failed."))


def check_result(message: Ended) -> tuple[ResultReport | None, Failure | None]:
    """Return the checked result of a success, or the failure if the result is not valid."""
    if message.result is None:
        return None, None
    try:
        return check_report(message.result), None
    except InvalidResult as error:
        return None, Failure.of(error)


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
