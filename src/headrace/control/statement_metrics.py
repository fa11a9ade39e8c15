"""Metrics of statements and drivers: durations and outcomes.

A node observes what its own transactions change, when they are committed. The sum over all nodes of
a cluster is therefore the number of all statements, however many nodes there are. A node that is
killed between a commit and its observation loses that observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram

from headrace.errors import HeadraceError
from headrace.model.failure import SPARK_CODES
from headrace.model.session import Session
from headrace.model.statement import StatementEnd

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_NO_CODE = "none"
_OTHER_CODE = "other"


class StatementMetrics:
    """Histograms and counters of the statements that this node ends, and of driver starts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._known_codes = SPARK_CODES.union(_error_codes(HeadraceError))
        self._duration = Histogram(
            "headrace_statement_duration_seconds",
            "Time from the start of a statement to its end, for statements that have run.",
            ["kind", "outcome"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._queue = Histogram(
            "headrace_statement_queue_seconds",
            "Time that a statement waited before a driver claimed it; in the last attempt, if there"
            " were several. Observed at its end.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._start = Histogram(
            "headrace_statement_start_seconds",
            "Time from the submit of a statement until it ran, the start of a driver included."
            " Observed at its end.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._ended = Counter(
            "headrace_statements_ended",
            "Statements that have ended, also those that never ran. `code` is the code of the"
            f" error, `{_NO_CODE}` without an error, or `{_OTHER_CODE}` for a code that the node"
            " does not know.",
            ["kind", "outcome", "code"],
            registry=registry,
        )
        self._driver_start = Histogram(
            "headrace_driver_start_seconds",
            "Time from the launch of a driver until it reported that Spark is up. For the first"
            " driver of an embedded node, it begins with the commit of the session. `profile` is a"
            " profile of the settings.",
            ["profile"],
            buckets=_SECONDS,
            registry=registry,
        )

        self._lost_drivers = Counter(
            "headrace_lost_drivers",
            "Drivers that this node has found lost: the process ended, or did not renew its lease.",
            registry=registry,
        )
        self._failed_starts = Counter(
            "headrace_failed_driver_starts",
            "Drivers that this node could not start: the backend refused the launch.",
            registry=registry,
        )

    def observe_lost_driver(self) -> None:
        """Count a driver that is lost."""
        self._lost_drivers.inc()

    def observe_failed_start(self) -> None:
        """Count a driver that could not be started."""
        self._failed_starts.inc()

    def observe_ends(self, ends: Sequence[StatementEnd]) -> None:
        """Observe statements whose end is committed."""
        for end in ends:
            self._ended.labels(end.kind, end.outcome, self._code(end)).inc()
            _observe(self._duration.labels(end.kind, end.outcome), end.started_at, end.ended_at)
            _observe(self._start.labels(end.kind), end.created_at, end.started_at)
            _observe(self._queue.labels(end.kind), end.waiting_since, end.launched_at)

    def observe_driver_start(self, launched: Session, running: Session) -> None:
        """Observe the start of a driver, by its session before and after it was up."""
        histogram = self._driver_start.labels(running.spec.profile)
        _observe(histogram, launched.last_update_time, running.last_update_time)

    def _code(self, end: StatementEnd) -> str:
        if end.code is None:
            return _NO_CODE
        # A driver reports the code, so it may be any text.
        return end.code if end.code in self._known_codes else _OTHER_CODE


def _observe(histogram: Histogram, start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None:
        histogram.observe(max(0.0, (end - start).total_seconds()))


def _error_codes(error: type[HeadraceError]) -> Iterator[str]:
    yield error.code
    for child in error.__subclasses__():
        yield from _error_codes(child)
