"""Locks on sessions that a statement needs before it is inserted."""

from __future__ import annotations

from headrace.control.streams.lookup import find_query
from headrace.control.views.lookup import find_refresh_query, find_view
from headrace.errors import MaterializedViewNotFound, StreamNotFound
from headrace.grammar.materialized_views import MaterializedViewStatement, ViewAction
from headrace.grammar.parse import Command
from headrace.grammar.stream_statements import QueryAction, QueryStatement
from headrace.model.stream_query import StreamQuery
from headrace.store.database import Tx
from headrace.store.sessions import sessions


def lock_sessions(tx: Tx, owner: str, command: Command | None, session_id: str) -> None:
    """Lock the session of a statement that acts on a query, together with the session of the query.

    The insertion of the statement locks the first one, and the action the other one. Statements in
    the sessions of each other's queries would otherwise wait for each other.
    """
    query = _find_affected(tx, owner, command)
    if query is not None:
        sessions.lock_all(tx, {session_id, query.session_id})


def _find_affected(tx: Tx, owner: str, command: Command | None) -> StreamQuery | None:
    """Return the query that a statement of an owner changes, or None."""
    try:
        if isinstance(command, QueryStatement) and command.action is not QueryAction.SHOW:
            return find_query(tx, owner, ".".join(command.query))
        if isinstance(command, MaterializedViewStatement) and command.action is ViewAction.DROP:
            return find_refresh_query(tx, find_view(tx, owner, command.name))
    except (StreamNotFound, MaterializedViewNotFound):
        return None
    return None
