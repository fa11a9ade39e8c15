"""The expectations on what runs and streaming queries write, and what drivers count for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from headrace.control.outbox.alerts import Alerts
from headrace.errors import ExpectationFailed
from headrace.model.connection import RUN_PROTOCOL, Connection
from headrace.model.expectation import Expectation, ExpectationCounts
from headrace.model.lifecycle import STREAM, StreamState
from headrace.model.statement import Statement
from headrace.model.stream_expectation import add_batches, list_expectations
from headrace.model.stream_query import QueryProgress, QueryReport, StreamQuery
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import expectations
from headrace.store.streams import stream_expectations

ObserveBatch = Callable[[StreamQuery, ExpectationCounts], None]
"""Takes the query of a batch, and what the batch has counted."""

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
    """Store what a driver has counted, unless it contradicts the expectations of the statement."""
    checks = expectations.find(tx, statement_id)
    if checks is None:
        return
    names = [each.name for each in checks.expectations]
    if [each.name for each in counts.expectations] != names:
        _LOG.warning("statement %s: its counts name other expectations", statement_id)
        return
    expectations.save_counts(tx, statement_id, counts)


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
