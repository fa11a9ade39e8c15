"""Statements on materialized views that a node executes itself."""

from __future__ import annotations

from headrace.control.policy import Caller
from headrace.control.views.lookup import (
    find_live_writer,
    find_refresh_query,
    find_view,
    lock_view,
)
from headrace.errors import MaterializedViewBusy
from headrace.grammar.masking import mask_statement
from headrace.grammar.materialized_views import (
    CreateMaterializedView,
    MaterializedViewStatement,
    ShowMaterializedViews,
    ViewAction,
)
from headrace.grammar.parse import parse
from headrace.model.lifecycle import STREAM
from headrace.model.materialized_view import (
    IntentAction,
    MaterializedView,
    RowStorage,
    generation_name,
)
from headrace.model.result import ResultReport
from headrace.model.statement import Statement
from headrace.model.stream_query import EndReason, StreamQuery
from headrace.results.node_result import make_text_result
from headrace.store import catalog_intents
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.streams import stream_progress, stream_queries, stream_transitions, views
from headrace.text.readable import format_utc

_MAX_SHOWN = 1000
"""Largest number of views that SHOW MATERIALIZED VIEWS lists."""
_MANUAL = "by REFRESH MATERIALIZED VIEW"


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
    return _describe(tx, find_view(tx, caller, command.name))


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
    rows: list[list[str | None]] = []
    for view in views.list_live(tx, owner, _MAX_SHOWN):
        query = find_refresh_query(tx, view)
        rows.append(
            [
                view.qualified_name,
                _describe_state(tx, view),
                _describe_freshness(tx, view, query),
                _describe_refresh(view),
            ]
        )
    return make_text_result(["view", "state", "fresh_as_of", "refresh"], rows)


def _describe(tx: Tx, view: MaterializedView) -> ResultReport:
    query = find_refresh_query(tx, view)
    error = None if query is None else query.last_error
    values = {
        "view": view.qualified_name,
        "id": view.id,
        "state": _describe_state(tx, view),
        "fresh_as_of": _describe_freshness(tx, view, query),
        "refresh": _describe_refresh(view),
        "generation": _describe_generation(view),
        "table": _describe_table(view),
        "query": None if query is None else query.qualified_name,
        "query_state": None if query is None else query.state,
        "last_error": None if error is None else error.message,
        "last_statement": view.statement_id,
        "created_at": format_utc(view.created_at),
        "statement": mask_statement(view.text),
    }
    return make_text_result(
        ["property", "value"], [[name, value] for name, value in values.items()]
    )


def _describe_state(tx: Tx, view: MaterializedView) -> str:
    writer = find_live_writer(tx, view)
    return "refreshing" if writer is not None and view.current_generation else view.state


def _describe_refresh(view: MaterializedView) -> str:
    if view.query_id is None:
        return _MANUAL
    command = parse(view.text).command
    assert isinstance(command, CreateMaterializedView)
    interval = command.refresh_interval
    return "automatic" if interval is None else f"automatic, every {interval}"


def _describe_freshness(tx: Tx, view: MaterializedView, query: StreamQuery | None) -> str | None:
    """Return the time before which all changes of the sources are in the view."""
    if query is not None:
        last = stream_progress.read_last(tx, [query.id]).get(query.id)
        if last is not None:
            return last.at
    return None if view.fresh_as_of is None else format_utc(view.fresh_as_of)


def _describe_generation(view: MaterializedView) -> str | None:
    # A query numbers its generations in the catalog.
    is_counted = view.query_id is None and view.current_generation is not None
    return str(view.current_generation) if is_counted else None


def _describe_table(view: MaterializedView) -> str | None:
    generation = _describe_generation(view)
    if generation is None or view.rows.storage is RowStorage.REPLACEMENT:
        return None
    *namespace, name = view.rows.path
    return ".".join([*namespace, generation_name(name, int(generation))])
