"""What is known about a materialized view: its state, its age, and how it is refreshed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.control.context import NodeContext
from headrace.control.policy import (
    HIDDEN_TEXT,
    Action,
    Caller,
    check,
    listed_owners,
    may,
    visible_owners,
)
from headrace.control.views.lookup import (
    find_live_writers,
    find_refresh_queries,
    list_named,
)
from headrace.errors import MaterializedViewNotFound
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.model.materialized_view import MaterializedView, RowStorage, generation_name
from headrace.model.stream_query import QueryProgress, StreamQuery
from headrace.store.database import Tx
from headrace.store.streams import stream_progress, views
from headrace.text.readable import format_utc

_MANUAL = "by REFRESH MATERIALIZED VIEW"


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """A materialized view with what belongs to it."""

    view: MaterializedView
    state: str
    """State of the view, or `refreshing`."""
    fresh_as_of: str | None
    """Time before which all changes of the sources are in the view; None: it has no rows yet."""
    refresh: str
    """How it is refreshed."""
    query: StreamQuery | None
    """The newest query that refreshes it, live or not."""

    @property
    def generation(self) -> str | None:
        """Number of the generation that readers see; None: its query numbers them."""
        view = self.view
        is_counted = view.query_id is None and view.current_generation is not None
        return str(view.current_generation) if is_counted else None

    @property
    def table(self) -> str | None:
        """Table with the rows that readers see; None: the view itself has them."""
        if self.generation is None or self.view.rows.storage is RowStorage.REPLACEMENT:
            return None
        *namespace, name = self.view.rows.path
        return ".".join([*namespace, generation_name(name, int(self.generation))])


def read_statuses(tx: Tx, found: Sequence[MaterializedView]) -> list[ViewStatus]:
    """Return views with what belongs to them. The number of queries does not grow with theirs."""
    writers, queries = find_live_writers(tx, found), find_refresh_queries(tx, found)
    last = stream_progress.read_last(tx, [query.id for query in queries.values()])
    return [
        ViewStatus(
            view,
            "refreshing" if view.id in writers and view.current_generation else view.state,
            _describe_freshness(view, queries.get(view.id), last),
            _describe_refresh(view),
            queries.get(view.id),
        )
        for view in found
    ]


def read_status(tx: Tx, view: MaterializedView) -> ViewStatus:
    """Return a view with what belongs to it."""
    [status] = read_statuses(tx, [view])
    return status


def _describe_refresh(view: MaterializedView) -> str:
    if view.query_id is None:
        return _MANUAL
    command = parse(view.text).command
    assert isinstance(command, CreateMaterializedView)
    interval = command.refresh_interval
    return "automatic" if interval is None else f"automatic, every {interval}"


def _describe_freshness(
    view: MaterializedView, query: StreamQuery | None, last: Mapping[str, QueryProgress]
) -> str | None:
    if query is not None and query.id in last:
        return last[query.id].at
    return None if view.fresh_as_of is None else format_utc(view.fresh_as_of)


class MaterializedViews:
    """Reads of materialized views."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def list_views(
        self, caller: Caller, *, limit: int, all_owners: bool = False
    ) -> list[ViewStatus]:
        """Return at most `limit` live views of the owners that the caller lists, by name."""
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            found = views.list_live(tx, owners, limit)
            return [_hide_text(caller, each) for each in read_statuses(tx, found)]

    def find_views(self, caller: Caller, path: Sequence[str]) -> list[ViewStatus]:
        """Return the live views that the caller may read whose names end with these parts."""
        with self._database.read() as tx:
            found = list_named(tx, visible_owners(caller), path)
            return [_hide_text(caller, each) for each in read_statuses(tx, found)]

    def get_view(self, caller: Caller, view_id: str) -> ViewStatus:
        """Return a view by its id, live or not. Raise MaterializedViewNotFound."""
        missing = MaterializedViewNotFound(f"The materialized view {view_id} does not exist.")
        with self._database.read() as tx:
            view = check(caller, Action.READ, views.get(tx, view_id), missing)
            return _hide_text(caller, read_status(tx, view))


def _hide_text(caller: Caller, status: ViewStatus) -> ViewStatus:
    """Return the view without its SQL, unless the caller may read the content."""
    if may(caller, Action.READ_CONTENT, status.view):
        return status
    return replace(status, view=replace(status.view, text=HIDDEN_TEXT))
