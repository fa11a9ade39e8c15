"""The supervisor of a driver: it works towards the desired queries of the session."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from headrace.driver.streams.supervised_query import (
    REPORT_BYTES,
    Run,
    SupervisedQuery,
    measure,
)
from headrace.errors import HeadraceError
from headrace.grammar.parse import find_sink_options
from headrace.model.retry_policy import RetryPolicy, read_retry_policy
from headrace.model.stream_query import DesiredQueries, DesiredQuery, QueryReport, Wanted

_LOG = logging.getLogger("headrace.driver.streams")


class Supervisor:
    """Runs queries, each in a thread of its own: no query waits for another. Thread-safe."""

    def __init__(
        self,
        *,
        start_run: Callable[[DesiredQuery], Run],
        read_conf: Callable[[], Mapping[str, str]],
        on_change: Callable[[], None],
    ) -> None:
        """Create a supervisor without queries.

        Args:
            start_run: Starts a run of a query. Raises RunFailed.
            read_conf: Returns the configuration of the session, for the retry policies.
            on_change: Called when there is a change to report.
        """
        self._start_run = start_run
        self._read_conf = read_conf
        self._on_change = on_change
        self._lock = threading.Lock()
        self._queries: dict[str, SupervisedQuery] = {}
        self._generation = 0
        self._numbers = itertools.count(1)

    @property
    def generation(self) -> int:
        """Generation of the desired queries that the supervisor has."""
        with self._lock:
            return self._generation

    def apply(self, desired: DesiredQueries) -> None:
        """Work towards these desired queries. A query that is not among them is stopped."""
        by_id = {query.id: query for query in desired.queries}
        with self._lock:
            self._generation = desired.generation
            for query_id in [each for each in self._queries if each not in by_id]:
                self._queries.pop(query_id).stop()
        for query in desired.queries:
            self._apply(query)
        self._on_change()

    def start(self, desired: DesiredQuery) -> SupervisedQuery:
        """Start a query for its statement, unless it runs already. Return the query."""
        with self._lock:
            present = self._queries.get(desired.id)
            if present is not None:
                return present
            return self._begin(desired)

    def abandon(self, query_id: str) -> None:
        """Stop a query whose statement does not succeed, and report nothing about it."""
        with self._lock:
            query = self._queries.pop(query_id, None)
        if query is not None:
            query.stop()

    def report(self) -> list[QueryReport]:
        """Return what is to be reported about each query, as far as a node takes it at once."""
        with self._lock:
            queries = list(self._queries.values())
        reports, rest = list[QueryReport](), REPORT_BYTES
        for query in queries:
            report = query.report(rest)
            rest -= measure([*report.progress, *report.lineage])
            reports.append(report)
        return reports

    def acknowledge(self, reports: Sequence[QueryReport]) -> None:
        """Forget what a node has accepted."""
        with self._lock:
            queries = dict(self._queries)
        for report in reports:
            if report.id in queries:
                queries[report.id].acknowledge(report)

    def stop_all(self, seconds: float) -> None:
        """Stop all queries, and wait until they have stopped, at most for this time."""
        with self._lock:
            queries = list(self._queries.values())
        for query in queries:
            query.stop()
        deadline = time.monotonic() + seconds
        for query in queries:
            if not query.join(max(0.0, deadline - time.monotonic())):
                _LOG.warning("query %s did not stop in time", query.desired.name)

    def _apply(self, desired: DesiredQuery) -> None:
        with self._lock:
            present = self._queries.get(desired.id)
            if present is None:
                # A query that a statement is to start waits for it. A query that is to stop, and
                # that this driver does not have, is reported as stopped.
                if not desired.held or desired.wanted is not Wanted.RUNNING:
                    self._begin(desired)
            elif not present.update(desired):
                self._begin(desired)

    def _begin(self, desired: DesiredQuery) -> SupervisedQuery:
        query = SupervisedQuery(
            desired,
            _policy_of(desired, self._read_conf()),
            start_run=self._start_run,
            on_change=self._on_change,
            numbers=self._numbers,
        )
        self._queries[desired.id] = query
        query.start()
        return query


def _policy_of(desired: DesiredQuery, conf: Mapping[str, str]) -> RetryPolicy:
    """Return the retry policy of a query: its options, those of its sink, the configuration."""
    options = find_sink_options([*desired.spec.definitions, desired.spec.text])
    try:
        return read_retry_policy(dict(options), {**conf, **desired.spec.conf})
    except HeadraceError as error:
        # The node has checked the options; a SET in the session may have changed the defaults.
        _LOG.warning("query %s: %s", desired.name, error.message)
        return read_retry_policy(dict(options), {})
