"""Statements on materialized views that a node executes itself."""

from __future__ import annotations

from headrace.control.policy import Caller
from headrace.control.views.lookup import find_refresh_query, find_view, lock_view
from headrace.control.views.status import (
    ViewStatus,
    describe_view,
    read_status,
    read_statuses,
)
from headrace.errors import MaterializedViewBusy
from headrace.grammar.materialized_views import (
    MaterializedViewStatement,
    ShowMaterializedViews,
    ViewAction,
)
from headrace.model.lifecycle import STREAM
from headrace.model.materialized_view import IntentAction
from headrace.model.result import ResultReport
from headrace.model.statement import Statement
from headrace.model.stream_query import EndReason
from headrace.results.node_result import make_text_result
from headrace.store import catalog_intents
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.streams import stream_queries, stream_transitions, views

_MAX_SHOWN = 1000
"""Largest number of views that SHOW MATERIALIZED VIEWS lists."""


def execute(
    tx: Tx,
    caller: Caller,
    statement: Statement,
    command: MaterializedViewStatement | ShowMaterializedViews,
) -> ResultReport:
    """Execute a statement of kind `local` for its caller, and return its rows.

    A HeadraceError becomes the failure of the statement.
    """
    if isinstance(command, ShowMaterializedViews):
        return _show(tx, statement.owner)
    if command.action is ViewAction.DROP:
        return _drop(tx, caller, command)
    return _describe(read_status(tx, find_view(tx, caller, command.name)))


def _drop(tx: Tx, caller: Caller, command: MaterializedViewStatement) -> ResultReport:
    """Drop a view. A driver with its catalog removes the view and its rows from the catalog."""
    actor = caller.actor
    found = find_refresh_query(tx, find_view(tx, caller, command.name))
    if found is not None:
        # A transaction locks the session of a query before the query, and the view last.
        sessions.lock(tx, found.session_id)
    view = lock_view(tx, caller, command.name, incomplete=True)
    query = find_refresh_query(tx, view)
    if query is not None and query.state not in STREAM.terminal:
        if found is None or query.session_id != found.session_id:
            raise MaterializedViewBusy(
                f"The query of the materialized view {view.qualified_name} has just been restarted"
                " in another session.",
                hint="Submit the statement again.",
            )
        locked = stream_queries.lock(tx, query.id)
        assert locked is not None
        stream_transitions.stop(tx, locked, actor=actor, reason=EndReason.VIEW_DROPPED)
    views.end(tx, view, actor=actor)
    query_id = None if query is None else query.id
    catalog_intents.insert_intent(tx, view, IntentAction.DROP_VIEW, actor=actor, query_id=query_id)
    return make_text_result(["view"], [[view.qualified_name]])


def _show(tx: Tx, owner: str) -> ResultReport:
    found = read_statuses(tx, views.list_live(tx, [owner], _MAX_SHOWN))
    rows = [
        [each.view.qualified_name, each.state, each.fresh_as_of, each.refresh] for each in found
    ]
    return make_text_result(["view", "state", "fresh_as_of", "refresh"], rows)


def _describe(status: ViewStatus) -> ResultReport:
    values = describe_view(status)
    return make_text_result(
        ["property", "value"], [[name, value] for name, value in values.items()]
    )
