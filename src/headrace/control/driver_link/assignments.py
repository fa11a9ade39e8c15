"""The assignment of a statement to its driver: the text, and all that its execution needs."""

from __future__ import annotations

from headrace.control.driver_link.outcomes import choose_disposition
from headrace.control.driver_link.streams import find_query_to_start, list_definitions_to_read
from headrace.control.driver_link.table_journal import make_entry
from headrace.control.driver_link.views import find_view_to_refresh, list_streams_of_view
from headrace.model.messages import Assignment, Poll
from headrace.model.session import DriverLease
from headrace.model.statement import JOB_TASK, JOB_WRITE, Statement
from headrace.model.transaction import Transaction
from headrace.store import transactions
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.sessions.lease_renewals import DriverView
from headrace.store.statements import results, statements
from headrace.store.statements.limits import Limit
from headrace.store.statements.statement_transitions import Claim, claim_next


def assign_again(tx: Tx, statement_id: str, view: DriverView) -> Assignment | None:
    """Return the assignment of a statement that its driver has claimed; None if it is gone."""
    statement = statements.get(tx, statement_id)
    if statement is None:
        return None
    claim = Claim(statement, view.pool, view.results_location)
    return make_assignment(tx, claim, transactions.live(tx, statement_id))


def claim_next_assignment(
    tx: Tx, lease: DriverLease, message: Poll, running_limit: Limit
) -> tuple[Statement, Assignment] | None:
    """Claim the oldest waiting statement for a poll; see `claim_next`."""
    claim = claim_next(tx, lease, running_limit, may_have_effects=not message.announces_effects)
    if claim is None:
        return None
    transaction = None
    if claim.statement.attempts > 1:
        transaction = transactions.adopt(tx, claim.statement.id, lease)
    return claim.statement, make_assignment(tx, claim, transaction)


def make_assignment(tx: Tx, claim: Claim, transaction: Transaction | None) -> Assignment:
    """Return the assignment of a claimed statement.

    Args:
        transaction: The table transaction of an earlier attempt.
    """
    entry = None if transaction is None else make_entry(tx, transaction)
    statement, spec = claim.statement, claim.statement.spec
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
        task=jobs.get_task(tx, statement.id)
        if statement.command in {JOB_TASK, JOB_WRITE}
        else None,
        isolated=claim.in_pool,
        ordinal=statement.ordinal,
    )
