"""What is known about a materialized view: its state, its age, and how it is refreshed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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
)
from headrace.errors import MaterializedViewNotFound
from headrace.grammar.masking import mask_statement
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.model.expectation import Expectation, ExpectationResult, ViewChecks
from headrace.model.lifecycle import MaterializedViewState, StreamState
from headrace.model.materialized_view import MaterializedView, RowStorage, generation_name
from headrace.model.reasons import explain_stream
from headrace.model.statement import Statement
from headrace.model.stream_history import parse_instant, sum_backlog
from headrace.model.stream_query import QueryProgress, StreamQuery
from headrace.model.text import cut_text
from headrace.store.database import Tx
from headrace.store.jobs import expectations
from headrace.store.statements import statements
from headrace.store.streams import stream_expectations, stream_progress, views
from headrace.text.readable import describe_count, describe_duration, format_utc

_SOURCES, _NAME_CHARACTERS = 50, 200
_MANUAL = "by REFRESH MATERIALIZED VIEW"


@dataclass(frozen=True, slots=True)
class ViewRefresh:
    """The last refresh of a view that has succeeded, and what it cost."""

    began_at: datetime
    seconds: float
    rows: int | None
    """Rows that it read; None: the store does not know."""


@dataclass(frozen=True, slots=True)
class ViewSource:
    """A source of the query of a view, as of the last batch."""

    name: str
    backlog: int
    """Records that were not read yet."""


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
    last_refresh: ViewRefresh | None
    """None: the store does not know it any more, or there was none."""
    sources: Sequence[ViewSource]
    """Sources that say how much they have. The store does not know the others."""
    checks: ViewChecks | None = None
    """Expectations of the view, and what its last refresh has counted. None: the view has none, the
    caller may not read them, or the status is part of a list."""

    @property
    def next_refresh_at(self) -> datetime | None:
        """Time of the next refresh; None: it has no fixed time."""
        interval = None if self.query is None else _find_interval(self.query)
        if interval is None or self.last_refresh is None or not self.is_refreshed:
            return None
        return self.last_refresh.began_at + timedelta(seconds=interval)

    @property
    def next_refresh(self) -> str:
        """When the next refresh is, in words."""
        if self.query is None:
            return "with the next REFRESH MATERIALIZED VIEW"
        if not self.is_refreshed:
            return "when its query runs again"
        interval = _find_interval(self.query)
        if interval is None:
            return "with the next rows of its sources"
        return f"with the next rows of its sources, at most every {describe_duration(interval)}"

    @property
    def is_refreshed(self) -> bool:
        """Whether its query runs."""
        return self.query is not None and self.query.state is StreamState.RUNNING

    @property
    def inactive_reason(self) -> str | None:
        """Why nothing refreshes the view by itself; None: its query runs."""
        if self.view.state is MaterializedViewState.CREATING:
            return "Its first rows are not complete yet."
        if self.view.ended_at is not None:
            return "It was dropped, or its creation has failed."
        if self.query is None:
            return "No query refreshes it: it changes with a statement only."
        if self.is_refreshed:
            return None
        reason = explain_stream(self.query)
        text = f"It is {self.query.state}." if reason is None else reason.text
        return f"The query {self.query.qualified_name} does not run. {text}"

    @property
    def stale_reason(self) -> str | None:
        """Why the view lacks rows of its sources, as far as the store knows; None otherwise."""
        if self.view.state is not MaterializedViewState.ACTIVE or self.query is None:
            return None
        if not self.is_refreshed:
            return "its query does not run"
        behind = sum(source.backlog for source in self.sources)
        return f"{describe_count(behind, 'record')} not read yet" if behind else None

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
    batches = {view_id: last.get(query.id) for view_id, query in queries.items()}
    last_writers = statements.get_all(tx, [view.writer_id for view in found], cut_text=True)
    statuses = []
    for view in found:
        batch = batches.get(view.id)
        status = ViewStatus(
            view,
            "refreshing" if view.id in writers and view.current_generation else view.state,
            _describe_freshness(view, batch),
            _describe_refresh(view),
            queries.get(view.id),
            _find_last_refresh(view, batch, last_writers.get(view.writer_id)),
            [] if batch is None else _list_sources(batch),
        )
        statuses.append(status)
    return statuses


def read_status(tx: Tx, view: MaterializedView) -> ViewStatus:
    """Return a view with what belongs to it."""
    [status] = read_statuses(tx, [view])
    return replace(status, checks=_find_checks(tx, view, status.query))


def list_expectations_of_view(view: MaterializedView) -> list[Expectation]:
    """Return the expectations on the rows of each refresh of a view."""
    command = parse(view.text).command
    assert isinstance(command, CreateMaterializedView)
    return command.expectations


def _find_checks(tx: Tx, view: MaterializedView, query: StreamQuery | None) -> ViewChecks | None:
    expected = list_expectations_of_view(view)
    if not expected:
        return None
    batches = None if query is None else stream_expectations.find(tx, query)
    if batches is not None:
        return ViewChecks(expectations=expected, counts=batches.last, statement_id=None)
    statement, counts = expectations.find_last_refresh(tx, view.id) or (None, None)
    return ViewChecks(expectations=expected, counts=counts, statement_id=statement)


def _find_interval(query: StreamQuery) -> float | None:
    """Return the time between two refreshes of a view; None: after each batch of new rows."""
    return None if query.spec.view is None else query.spec.view.interval_seconds


def _find_last_refresh(
    view: MaterializedView, batch: QueryProgress | None, writer: Statement | None
) -> ViewRefresh | None:
    """Return the last batch of the query, or the statement that wrote the current generation."""
    if batch is not None:
        began_at = parse_instant(batch.at)
        if began_at is None:
            return None
        return ViewRefresh(began_at, batch.milliseconds / 1000, batch.input_rows)
    if view.current_generation is None or view.generation != view.current_generation:
        return None  # the statement that wrote it is not known while another one writes
    if writer is None or writer.launched_at is None or writer.ended_at is None:
        return None
    seconds = (writer.ended_at - writer.launched_at).total_seconds()
    return ViewRefresh(writer.launched_at, seconds, None)


def _list_sources(batch: QueryProgress) -> list[ViewSource]:
    """Return the sources that say how many records they have, most first."""
    backlogs = {name: sum_backlog({name: value}) for name, value in batch.lag.items()}
    known = [
        ViewSource(cut_text(name, _NAME_CHARACTERS), value)
        for name, value in backlogs.items()
        if value is not None
    ]
    # A driver may report any number of sources, with any names.
    return sorted(known, key=lambda source: (-source.backlog, source.name))[:_SOURCES]


def _describe_refresh(view: MaterializedView) -> str:
    if view.query_id is None:
        return _MANUAL
    command = parse(view.text).command
    assert isinstance(command, CreateMaterializedView)
    interval = command.refresh_interval
    return "automatic" if interval is None else f"automatic, every {interval}"


def _describe_freshness(view: MaterializedView, batch: QueryProgress | None) -> str | None:
    if batch is not None:
        return batch.at
    return None if view.fresh_as_of is None else format_utc(view.fresh_as_of)


def describe_view(status: ViewStatus) -> dict[str, str | None]:
    """Return the properties of a view, as DESCRIBE MATERIALIZED VIEW and the API show them."""
    view, query, refresh = status.view, status.query, status.last_refresh
    error = None if query is None else query.last_error
    rows = None if refresh is None else refresh.rows
    return {
        "view": view.qualified_name,
        "id": view.id,
        "state": status.state,
        "fresh_as_of": status.fresh_as_of,
        "refresh": status.refresh,
        "last_refresh_began_at": None if refresh is None else format_utc(refresh.began_at),
        "last_refresh_seconds": None if refresh is None else f"{refresh.seconds:.3f}",
        "last_refresh_rows": None if rows is None else str(rows),
        "next_refresh": status.next_refresh,
        "inactive": status.inactive_reason,
        "stale": status.stale_reason,
        **{f"not read yet: {source.name}": str(source.backlog) for source in status.sources},
        **_describe_checks(status.checks),
        "generation": status.generation,
        "table": status.table,
        "query": None if query is None else query.qualified_name,
        "query_state": None if query is None else query.state,
        "last_error": None if error is None else error.message,
        "last_statement": view.statement_id,
        "created_at": format_utc(view.created_at),
        "statement": mask_statement(view.text),
    }


def _describe_checks(checks: ViewChecks | None) -> dict[str, str | None]:
    """Return what the last refresh has counted, as properties of the view."""
    if checks is None:
        return {}
    described: dict[str, str | None] = {
        f"expectation {each.name}": f"{each.on_violation}: {_describe_result(checks, index)}"
        for index, each in enumerate(checks.expectations)
    }
    counts = checks.counts
    described["rows_dropped"] = None if counts is None else str(counts.rows_dropped)
    return {**described, "checked_statement": checks.statement_id}


def _describe_result(checks: ViewChecks, index: int) -> str:
    result = checks.find_result(index)
    if checks.counts is None or result is not ExpectationResult.VIOLATED:
        return result.replace("_", " ")
    counted = checks.counts.expectations[index]
    nulls = f", {counted.nulls:,} of them NULL" if counted.nulls else ""
    rows = describe_count(checks.counts.rows_in, "row")
    return f"violated by {counted.violations:,} of {rows}{nulls}"


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
            found = views.list_named(tx, visible_owners(caller), path)
            return [_hide_text(caller, each) for each in read_statuses(tx, found)]

    def get_view(self, caller: Caller, view_id: str) -> ViewStatus:
        """Return a view by its id, live or not. Raise MaterializedViewNotFound."""
        missing = MaterializedViewNotFound(f"The materialized view {view_id} does not exist.")
        with self._database.read() as tx:
            view = check(caller, Action.READ, views.get(tx, view_id), missing)
            return _hide_text(caller, read_status(tx, view))


def _hide_text(caller: Caller, status: ViewStatus) -> ViewStatus:
    """Return the view without its SQL and expectations, unless the caller may read the content."""
    if may(caller, Action.READ_CONTENT, status.view):
        return status
    return replace(status, view=replace(status.view, text=HIDDEN_TEXT), checks=None)
