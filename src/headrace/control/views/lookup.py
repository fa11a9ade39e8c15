"""Lookup of materialized views, inside a transaction of the caller."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headrace.control.policy import Action, Caller, check
from headrace.errors import MaterializedViewBusy, MaterializedViewNotFound
from headrace.model.lifecycle import STATEMENT, MaterializedViewState
from headrace.model.materialized_view import MaterializedView
from headrace.model.statement import Statement
from headrace.model.stream_query import ADHOC_SCOPE, StreamQuery
from headrace.store import transactions
from headrace.store.database import Tx
from headrace.store.statements import statements
from headrace.store.streams import stream_queries, views


def find_view(
    tx: Tx, caller: Caller, name: Sequence[str], action: Action = Action.READ
) -> MaterializedView:
    """Return a live view on which the caller may act, by its name.

    The name has its namespace and catalog, or lacks them.

    Raises:
        MaterializedViewNotFound: There is none that the caller may read, or more than one.
        NotPermitted: The caller may read the view, and do no more.
    """
    found = views.list_named(tx, caller.owners, name)
    # A view of the caller comes before one of a group.
    found = [view for view in found if view.owner == caller.owner] or found
    written = ".".join(name)
    if not found:
        raise MaterializedViewNotFound(f"The materialized view {written} does not exist.")
    if len(found) > 1:
        names = ", ".join(view.qualified_name for view in found)
        raise MaterializedViewNotFound(
            f"The name {written} is ambiguous: {names}.", hint="Write the complete name."
        ).with_condition(None, None)
    return check(caller, action, found[0], MaterializedViewNotFound(written))


def lock_view(
    tx: Tx, caller: Caller, name: Sequence[str], *, incomplete: bool = False
) -> MaterializedView:
    """Return a view that the caller may change, locked, if no statement writes to it.

    Args:
        incomplete: Whether to return a view too whose creation has ended without a generation.

    Raises:
        MaterializedViewNotFound: As `find_view`.
        MaterializedViewBusy: A statement writes to the view, or the view is incomplete.
    """
    view = views.lock(tx, find_view(tx, caller, name, Action.CHANGE).id)
    if view is None or view.ended_at is not None:
        # Another statement has dropped the view while this one waited for the lock.
        raise MaterializedViewNotFound(
            f"The materialized view {'.'.join(name)} does not exist any more."
        )
    writer = find_live_writer(tx, view)
    if writer is not None:
        raise MaterializedViewBusy(
            f"The statement {writer.id} writes to the materialized view {view.qualified_name}.",
            hint=f"Wait for its end, or cancel it: CANCEL STATEMENT '{writer.id}'.",
        )
    is_creating = view.state is MaterializedViewState.CREATING
    if is_creating and transactions.live(tx, view.writer_id) is not None:
        raise MaterializedViewBusy(
            f"The materialized view {view.qualified_name} is not complete yet: the table of its"
            " first generation is still to be published, or removed.",
            hint="Run headrace recover.",
        )
    if is_creating and not incomplete:
        raise MaterializedViewBusy(
            f"The materialized view {view.qualified_name} was never completed.",
            hint="Drop the view and create it again.",
        )
    return view


def find_live_writer(tx: Tx, view: MaterializedView) -> Statement | None:
    """Return the statement that creates or refreshes a view now, or None."""
    statement = statements.get(tx, view.statement_id)
    if statement is None or statement.state in STATEMENT.terminal:
        return None
    return statement


def find_live_writers(tx: Tx, found: Collection[MaterializedView]) -> dict[str, Statement]:
    """Return the statements that create or refresh views now, by the id of the view."""
    writers = statements.get_all(tx, [view.statement_id for view in found], cut_text=True)
    return {
        view.id: writers[view.statement_id]
        for view in found
        if view.statement_id in writers
        and writers[view.statement_id].state not in STATEMENT.terminal
    }


def find_refresh_query(tx: Tx, view: MaterializedView) -> StreamQuery | None:
    """Return the newest query that refreshes a view, live or not, or None."""
    return find_refresh_queries(tx, [view]).get(view.id)


def find_refresh_queries(tx: Tx, found: Collection[MaterializedView]) -> dict[str, StreamQuery]:
    """Return the newest query that refreshes each view, live or not, by the id of the view."""
    names = {(view.owner, view.name) for view in found}
    newest = stream_queries.find_newest(tx, ADHOC_SCOPE, names)
    queries: dict[str, StreamQuery] = {}
    for view in found:
        query = newest.get((view.owner, view.name))
        if query is not None and query.spec.view is not None and query.spec.view.id == view.id:
            queries[view.id] = query
    rest = {view.query_id: view.id for view in found if view.query_id and view.id not in queries}
    for query in stream_queries.list_by_id(tx, list(rest)):
        queries[rest[query.id]] = query
    return queries
