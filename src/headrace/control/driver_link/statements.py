"""The part of the link that concerns statements: their assignment to a driver, and their end."""

from __future__ import annotations

from headrace.control.driver_link.expectations import find_expectations, save_counts
from headrace.control.driver_link.streams import find_query_to_start, list_definitions_to_read
from headrace.control.driver_link.table_journal import make_entry, mark_committed
from headrace.control.driver_link.views import find_view_to_refresh, list_streams_of_view
from headrace.errors import InvalidResult, StatementFailed, UpgradeUnfinished
from headrace.model.connection import AssignedConnection, Connection
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment, Ended, Poll
from headrace.model.result import Disposition, ResultReport, ResultRequest
from headrace.model.session import DriverLease
from headrace.model.statement import TASKS, Statement
from headrace.model.transaction import Transaction
from headrace.results.manifest import check_report
from headrace.store import lineage, transactions
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.sessions import connections, sessions
from headrace.store.sessions.lease_renewals import DriverView
from headrace.store.statements import results, statement_transitions, statements
from headrace.store.statements.limits import Limit
from headrace.store.statements.locks import LockedStatement
from headrace.store.statements.statement_transitions import Claim, claim_next


def assign_again(tx: Tx, statement_id: str, view: DriverView) -> Assignment | None:
    """Return the assignment of a statement that its driver has claimed; None if it is gone."""
    statement = statements.get(tx, statement_id)
    if statement is None:
        return None
    claim = Claim(statement, view.pool, view.parallelism, view.results_location)
    return make_assignment(tx, claim, transactions.live(tx, statement_id))


def claim_next_assignment(
    tx: Tx, lease: DriverLease, message: Poll, running_limit: Limit
) -> tuple[Statement, Assignment] | None:
    """Claim the first statement in the queue for a poll; see `claim_next`.

    A statement of a connection, or with expectations, fails if the driver cannot run it. Return
    None then, too.
    """
    claim = claim_next(
        tx,
        lease,
        running_limit,
        may_have_effects=not message.announces_effects,
        at_once=message.separates_queries,
    )
    if claim is None:
        return None
    if claim.statement.connection_id is not None and not message.opens_connections:
        _refuse_older_driver(tx, lease, claim.statement, "connections")
        return None
    transaction = None
    if claim.statement.attempts > 1:
        transaction = transactions.adopt(tx, claim.statement.id, lease)
    assignment = make_assignment(tx, claim, transaction)
    if assignment.expectations and not message.checks_rows:
        _refuse_older_driver(tx, lease, claim.statement, "expectations")
        return None
    return claim.statement, assignment


def _refuse_older_driver(tx: Tx, lease: DriverLease, statement: Statement, lacks: str) -> None:
    """Fail a statement that its driver would run in another way.

    Args:
        lacks: What the driver does not know.
    """
    error = UpgradeUnfinished(
        f"The driver of session {lease.session_id} has an older version, which does not know"
        f" {lacks}. Close the session (headrace session close {lease.session_id}), and submit"
        " the statement again."
    )
    statement_transitions.transition(
        tx,
        statement.id,
        StatementState.FAILED,
        actor=lease.actor,
        lease=lease,
        failure=Failure.of(error),
    )


def make_assignment(tx: Tx, claim: Claim, transaction: Transaction | None) -> Assignment:
    """Return the assignment of a claimed statement.

    Args:
        transaction: The table transaction of an earlier attempt.
    """
    entry = None if transaction is None else make_entry(tx, transaction)
    statement, spec = claim.statement, claim.statement.spec
    connection_id = statement.connection_id
    connection = None if connection_id is None else connections.get(tx, connection_id)
    return Assignment(
        statement_id=statement.id,
        text=spec.text,
        parameters=spec.parameters,
        conf=spec.conf,
        result_request=choose_disposition(tx, statement),
        result_location=results.choose_location(
            claim.results_location,
            spec.result_request,
            statement.id,
            statement.epoch,
            statement.attempts,
        ),
        is_query=statement.is_query,
        attempt=statement.attempts,
        transaction=entry,
        command=statement.command,
        query=find_query_to_start(tx, statement),
        definitions=list_definitions_to_read(tx, statement) + list_streams_of_view(tx, statement),
        view=find_view_to_refresh(tx, statement),
        task=jobs.get_task(tx, statement.id) if statement.command in TASKS else None,
        isolated=claim.in_pool and statement.connection_id is None,
        connection=_assign_connection(statement, connection),
        expectations=find_expectations(tx, statement, connection),
        alone=claim.parallelism == 1,
        ordinal=statement.ordinal,
    )


def _assign_connection(
    statement: Statement, connection: Connection | None
) -> AssignedConnection | None:
    """Return the connection of a statement; None if it belongs to none."""
    if statement.connection_id is None:
        return None
    # No driver has a session with this state, so that it asks for the connection that is gone.
    changed_by = statement.id if connection is None else connection.changed_by
    return AssignedConnection(id=statement.connection_id, changed_by=changed_by)


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
    if message.state is StatementState.SUCCESS:
        tables = [use for use in message.lineage if not (locked.is_query and use.is_written)]
        lineage.save(tx, message.statement_id, tables)
    if message.committed is not None:
        mark_committed(
            tx, lease, message.committed, message.statement_id, grace_seconds=grace_seconds
        )
    if locked.connection_id is not None:
        connections.use(tx, locked.connection_id)
        if message.snapshot is not None:
            connections.save_snapshot(
                tx, locked.connection_id, message.snapshot, changed_by=message.statement_id
            )
    elif message.snapshot is not None:
        sessions.save_snapshot(tx, lease.session_id, message.snapshot)
    if message.known_counts is not None and locked.command is None:
        save_counts(tx, message.statement_id, message.known_counts)
    statement_transitions.set_outcome(
        tx,
        message.statement_id,
        atomic=message.atomic,
        note=message.note,
        # A query writes no rows, whatever its driver says.
        rows_written=None if locked.is_query else message.rows_written,
    )
