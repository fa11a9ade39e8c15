"""The expectations on what runs and streaming queries write, and what drivers count for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from headrace.control.outbox.alerts import Alerts
from headrace.control.views.status import list_expectations_of_view
from headrace.errors import ExpectationFailed
from headrace.model.connection import RUN_PROTOCOL, Connection
from headrace.model.expectation import Expectation, ExpectationCounts, ViewChecks
from headrace.model.lifecycle import STREAM, StatementState, StreamState
from headrace.model.materialized_view import MaterializedView
from headrace.model.messages import Ended
from headrace.model.statement import CREATE_VIEW, REFRESH_VIEW, Statement
from headrace.model.stream_expectation import add_batches, list_expectations
from headrace.model.stream_query import QueryProgress, QueryReport, StreamQuery
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import expectations
from headrace.store.streams import stream_expectations, views

ObserveBatch = Callable[[StreamQuery, ExpectationCounts], None]
"""Takes the query of a batch, and what the batch has counted."""
ObserveRefresh = Callable[[MaterializedView, ExpectationCounts], None]
"""Takes a materialized view, and what its refresh has counted."""

_LOG = logging.getLogger("headrace.link")


def find_expectations(
    tx: Tx, statement: Statement, connection: Connection | None
) -> list[Expectation]:
    """Return the expectations of a statement, which only statements of runs have."""
    if connection is None or connection.protocol != RUN_PROTOCOL:
        return []
    checks = expectations.find(tx, statement.id)
    return [] if checks is None else checks.expectations


def save_counts(tx: Tx, statement_id: str, counts: ExpectationCounts) -> None:
    """Store what a driver has counted for a statement of a run, or for the refresh of a view.

    Counts that name other expectations are not stored. Those of a view are then stored as unknown.
    """
    checks = expectations.find(tx, statement_id)
    if checks is None:
        save_refresh(tx, statement_id, counts)
    elif _have_names_of(counts, checks.expectations, statement_id):
        expectations.save_counts(tx, statement_id, counts)


def save_refresh(
    tx: Tx, statement_id: str, counts: ExpectationCounts | None
) -> tuple[MaterializedView, ViewChecks] | None:
    """Store what a driver has counted for the view that a statement writes.

    Args:
        counts: None if they are not known.

    Returns:
        The view, and its expectations with the stored counts. None if the statement writes no view
        with expectations.
    """
    view = views.of_writer(tx, statement_id)
    expected = [] if view is None else list_expectations_of_view(view)
    if view is None or not expected:
        return None
    if counts is None and view.query_id is not None:
        # The query counts the rows that it writes.
        return None
    if counts is not None and not _have_names_of(counts, expected, statement_id):
        counts = None
    expectations.save_refresh(tx, view.id, statement_id, counts)
    return view, ViewChecks(expectations=expected, counts=counts, statement_id=statement_id)


def _have_names_of(
    counts: ExpectationCounts, expected: Sequence[Expectation], statement_id: str
) -> bool:
    """Return whether counts name the expectations of a statement. Log a warning if not."""
    if [each.name for each in counts.expectations] == [each.name for each in expected]:
        return True
    _LOG.warning("statement %s: its counts name other expectations", statement_id)
    return False


class ViewChecking:
    """Records what refreshes of materialized views have counted, at the end of their statements."""

    def __init__(self, alerts: Alerts, observe_refresh: ObserveRefresh | None = None) -> None:
        """Create it.

        Args:
            observe_refresh: Called for each refresh whose counts are known, after the commit.
        """
        self._alerts = alerts
        self._observe_refresh = observe_refresh or (lambda *_: None)

    def apply(self, tx: Tx, message: Ended, command: str | None, state: StatementState) -> None:
        """Store what a statement that writes a view has counted, and record violations.

        Args:
            command: First words of the statement, if it is one of Headrace's own.
            state: State in which the node ends the statement. The counts are ignored if the driver
                has reported another one, for example a success without a commit.
        """
        counts = message.known_counts
        # A failure without counts leaves the previous rows in the view, and so their counts.
        is_counted = counts is not None or state is StatementState.SUCCESS
        if command not in {CREATE_VIEW, REFRESH_VIEW} or state is not message.state:
            return
        saved = save_refresh(tx, message.statement_id, counts) if is_counted else None
        if saved is None:
            return
        view, checks = saved
        self._alerts.record_violated_refresh(tx, view, checks)
        if checks.counts is not None:
            # After the commit: a metric cannot be rolled back.
            tx.on_end(partial(self._observe, view, checks.counts))

    def _observe(
        self, view: MaterializedView, counts: ExpectationCounts, is_committed: bool
    ) -> None:
        if is_committed:
            self._observe_refresh(view, counts)


class StreamChecking:
    """Counts the batches of streaming queries that have expectations."""

    def __init__(self, alerts: Alerts, observe_batch: ObserveBatch | None = None) -> None:
        """Create it.

        Args:
            observe_batch: Called for each new batch whose counts are known, after the commit.
        """
        self._alerts = alerts
        self._observe_batch = observe_batch or (lambda *_: None)

    def apply(self, tx: Tx, query: StreamQuery, report: QueryReport) -> None:
        """Add the batches of a new report, and record violations for webhooks.

        Args:
            query: The query as it was before the report.
        """
        expected = list_expectations(query)
        if expected and report.progress:
            self._count(tx, query, expected, report.progress)
        failure, is_started = report.error, query.state in STREAM.started
        if not (expected and is_started and report.state is StreamState.FAILED and failure):
            return
        if failure.code == ExpectationFailed.code:
            self._alerts.record_failed_batch(tx, query, failure)

    def _count(
        self,
        tx: Tx,
        query: StreamQuery,
        expected: Sequence[Expectation],
        batches: Sequence[QueryProgress],
    ) -> None:
        before = stream_expectations.find(tx, query)
        now = read_clock(tx.connection).timestamp()
        found = add_batches(before, expected, batches, now=now)
        if found is None:
            return
        stream_expectations.save(tx, query.id, found.counts)
        for violation in found.violations:
            self._alerts.record_violated_batch(tx, query, violation)
        # Counters grow after the commit.
        tx.on_end(partial(self._observe, query, found.added))

    def _observe(
        self, query: StreamQuery, added: Sequence[ExpectationCounts], is_committed: bool
    ) -> None:
        if is_committed:
            for counts in added:
                self._observe_batch(query, counts)
