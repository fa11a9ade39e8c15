"""The part of the link that concerns streams: definitions and supervised queries."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.control.context import NodeContext
from headrace.control.driver_link.expectations import StreamChecking
from headrace.control.streams.closure import DefinedNames
from headrace.control.streams.commands import define
from headrace.control.streams.submission import list_needed_definitions
from headrace.errors import InvalidRequest, InvalidStatement
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateStreamAs
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT
from headrace.model.messages import FindMarked, FoundStreams, MarkedQuery
from headrace.model.session import DriverLease
from headrace.model.statement import CREATE_SINK, CREATE_STREAM, SAVE_STREAM, Statement
from headrace.model.stream_query import ADHOC_SCOPE, DesiredQuery, QueryReport
from headrace.store.database import Tx
from headrace.store.sessions.lease_renewals import load_owned_view
from headrace.store.statements import statements
from headrace.store.statements.locks import LockedStatement
from headrace.store.streams import stream_progress, stream_queries, stream_transitions


def find_query_to_start(tx: Tx, statement: Statement) -> DesiredQuery | None:
    """Return the query that a statement starts, or None if it starts none."""
    if statement.command != SAVE_STREAM:
        return None
    return stream_queries.desired_of_statement(tx, statement.id)


def list_definitions_to_read(tx: Tx, statement: Statement) -> list[str]:
    """Return the statements that define the streams that a CREATE STREAM reads, in order."""
    if statement.command != CREATE_STREAM:
        return []
    command = parse(statement.spec.text).command
    if not isinstance(command, CreateStreamAs):
        return []
    return list_needed_definitions(tx, statement.owner, command)


def find_streams(tx: Tx, owner: str, names: Sequence[str]) -> FoundStreams:
    """Return the definitions of an owner's streams with these names, or why they are too many."""
    try:
        return FoundStreams(definitions=DefinedNames(tx, owner, ADHOC_SCOPE).list_needed(names))
    except InvalidStatement as error:
        return FoundStreams(failure=Failure.of(error))


def store_definition(tx: Tx, statement_id: str, locked: LockedStatement) -> Failure | None:
    """Store what a statement defines that a driver has executed, if it defines a stream or a sink.

    Return the failure of the statement if another statement has just taken the name.
    """
    if (
        locked.command not in {CREATE_STREAM, CREATE_SINK}
        or locked.state not in STATEMENT.in_flight
    ):
        return None
    statement = statements.get(tx, statement_id)
    assert statement is not None
    return define(tx, statement)


def apply_query_reports(
    tx: Tx, lease: DriverLease, reports: Sequence[QueryReport], checks: StreamChecking
) -> None:
    """Apply what a driver reports about its queries and their batches."""
    for query, report in stream_transitions.apply_reports(tx, lease, reports):
        stream_progress.save(tx, report.id, report.progress)
        checks.apply(tx, query, report)


class CheckpointMarks:
    """Serves the call `find_marked`.

    A driver reads in a checkpoint which query has marked it. Only the store says whether that query
    is live: the driver, and every writer to the checkpoint, are strangers.
    """

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def find_marked(self, lease: DriverLease, message: FindMarked) -> MarkedQuery:
        """Return whether a marked query is live, and its name if the driver's owner may know it.

        Raises:
            LeaseLost: The driver no longer owns its session.
            InvalidRequest: The query that is to work on the checkpoint is not one of the session.
        """
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            own = stream_queries.get(tx, message.query_id)
            marked = stream_queries.get(tx, message.marked_id)
        if own is None or own.session_id != lease.session_id:
            raise InvalidRequest(f"{message.query_id} is no query of this session.")
        if marked is None or marked.ended_at is not None:
            return MarkedQuery(is_live=False)
        is_visible = marked.owner == own.owner
        return MarkedQuery(is_live=True, name=marked.qualified_name if is_visible else None)
