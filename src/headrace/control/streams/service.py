"""The service for streaming queries: list, show, stop, pause, resume, restart, retry."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.caller import Caller
from headrace.control.context import NodeContext
from headrace.control.streams.actions import act, find_query
from headrace.grammar.masking import mask_statement
from headrace.model.lifecycle import StreamAction
from headrace.model.stream_query import QueryProgress, StreamQuery
from headrace.store.streams import stream_progress, stream_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """A query, as a node shows it."""

    query: StreamQuery
    statement: str
    """The SAVE STREAM statement, without secrets."""
    progress: list[QueryProgress]
    """The last batches, oldest first."""


class Streams:
    """Streaming queries of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def get(self, caller: Caller, name: str) -> QueryStatus:
        """Return a query of the caller, by its id, its name, or `scope.name`.

        Raise StreamNotFound if there is none.
        """
        with self._database.read() as tx:
            query = find_query(tx, caller, name)
            return _status(query, stream_progress.read(tx, query.id))

    def page(
        self, caller: Caller, *, live: bool, before: str | None, limit: int
    ) -> list[QueryStatus]:
        """Return at most `limit` queries of the caller, newest first, each with its last batch.

        Args:
            live: Only queries that have not ended.
            before: Only queries with smaller ids.
        """
        with self._database.read() as tx:
            queries = stream_queries.page(
                tx, owner=caller.owner, live=live, before=before, limit=limit
            )
            last = stream_progress.read_last(tx, [query.id for query in queries])
        return [_status(query, [last[query.id]] if query.id in last else []) for query in queries]

    def act(self, caller: Caller, name: str, action: StreamAction) -> QueryStatus:
        """Apply an action to a query of the caller, and return the query. Raise as `act` does."""
        with self._database.write("stream.act") as tx:
            query = act(tx, self._settings, caller, name, action)
            return _status(query, stream_progress.read(tx, query.id))


def _status(query: StreamQuery, progress: list[QueryProgress]) -> QueryStatus:
    return QueryStatus(query=query, statement=mask_statement(query.spec.text), progress=progress)
