"""Metrics of the store, collected when Prometheus asks for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.errors import HeadraceError, StoreUnavailable
from headrace.model.delivery import AttemptOutcome, Delivery
from headrace.model.expectation import ExpectationCounts, StatementChecks
from headrace.model.failure import SPARK_CODES
from headrace.model.lifecycle import StreamState
from headrace.model.materialized_view import MaterializedView
from headrace.model.run import JobRun
from headrace.model.session import Session
from headrace.model.statement import StatementEnd
from headrace.model.stream_query import MeasuredQuery, QueryProgress, StreamQuery
from headrace.store.database import Database
from headrace.store.jobs import schedules
from headrace.store.live_counts import MEASUREMENTS, count_live
from headrace.store.streams import stream_progress

MAX_QUERIES = 500
"""Largest number of queries with gauges, because each is a time series of every metric."""
_MOST_LAGS = 500
_MAX_LABEL = 200
"""Largest number of characters of a name in a label."""


class _Gauge(NamedTuple):
    name: str
    documentation: str
    read: Callable[[QueryProgress], float | None]
    """Returns the value, or None if the batch has none."""
    of_running_query: bool = False
    """Whether the value is only true while the query runs."""


def _read_lag(batch: QueryProgress) -> float | None:
    # The driver has reported any JSON values.
    values = [value for value in batch.lag.values() if isinstance(value, int | float)]
    return float(sum(values)) if values else None


def _read_instant(text: str | None) -> float | None:
    """Return seconds since the epoch; None if the driver has not reported an instant."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


_GAUGES = (
    _Gauge(
        "headrace_stream_input_rows_per_second",
        "Rows per second that arrived before the newest batch. A query that does not run has 0.",
        lambda batch: batch.input_rate,
        of_running_query=True,
    ),
    _Gauge(
        "headrace_stream_processed_rows_per_second",
        "Rows per second that the newest batch processed. A query that does not run has 0.",
        lambda batch: batch.process_rate,
        of_running_query=True,
    ),
    _Gauge(
        "headrace_stream_batch_duration_seconds",
        "Duration of the newest batch.",
        lambda batch: batch.milliseconds / 1000,
    ),
    _Gauge(
        "headrace_stream_batch_timestamp_seconds",
        "Start of the newest batch. Without new rows, there are no batches.",
        lambda batch: _read_instant(batch.at),
    ),
    _Gauge(
        "headrace_stream_lag_records",
        "Records that the sources had when the newest batch began and that it did not read, for"
        " the sources that say so: Kafka reports those of its slowest partition.",
        _read_lag,
    ),
    _Gauge(
        "headrace_stream_watermark_timestamp_seconds",
        "Watermark of the newest batch.",
        lambda batch: _read_instant(batch.watermark),
    ),
    _Gauge(
        "headrace_stream_late_rows",
        "Rows that the operators with state dropped in the newest batch, because they were later"
        " than its watermark.",
        lambda batch: batch.late_rows,
    ),
    _Gauge(
        "headrace_stream_state_rows",
        "Rows in the state of the query after the newest batch.",
        lambda batch: batch.state_rows,
    ),
    _Gauge(
        "headrace_stream_state_bytes",
        "Memory of the state of the query after the newest batch.",
        lambda batch: batch.state_bytes,
    ),
)


def make_stream_metrics(queries: Iterable[MeasuredQuery], *, live: int) -> Iterator[Metric]:
    """Yield the gauges of these queries.

    Args:
        live: Number of live queries, also of those that are not among `queries`.
    """
    measured = [(_labels_of(query), query) for query in queries]
    failures = _make_family(
        "headrace_stream_failures", "Successive failures of a streaming query that has not ended."
    )
    for labels, query in measured:
        failures.add_metric(labels, query.failures)
    yield failures
    for gauge in _GAUGES:
        family = _make_family(gauge.name, gauge.documentation)
        for labels, query in measured:
            value = _read_value(gauge, query)
            if value is not None:
                family.add_metric(labels, value)
        yield family
    yield GaugeMetricFamily(
        "headrace_streams_omitted",
        f"Number of live streaming queries beyond the {MAX_QUERIES} whose gauges a node returns:"
        " those of the newest sessions.",
        value=max(0, live - len(measured)),
    )


def _make_family(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=["owner", "scope", "query"])


def _labels_of(query: MeasuredQuery) -> list[str]:
    # The id replaces a long name, because two cut names could be equal.
    name = query.name if len(query.name) <= _MAX_LABEL else query.id
    return [query.owner, query.scope, name]


def _read_value(gauge: _Gauge, query: MeasuredQuery) -> float | None:
    if query.progress is None:
        return None
    if gauge.of_running_query and query.state is not StreamState.RUNNING:
        return 0.0
    return gauge.read(query.progress)


NO_ROUTE = "other"
"""Label of requests that no route has received."""
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


def make_request_durations(registry: CollectorRegistry) -> Histogram:
    """Register the durations of HTTP requests, which `api` observes."""
    return Histogram(
        "headrace_http_request_duration_seconds",
        "Time until the response to a request begins. `route` is the template of the path, or"
        f" `{NO_ROUTE}` for requests that no route has received. Long polls count with the time"
        " that they wait.",
        ["method", "route", "status"],
        buckets=_REQUEST_SECONDS,
        registry=registry,
    )


class NodeMetrics:
    """Metrics of the node itself: its lease, and the disk of its home."""

    def __init__(self, registry: CollectorRegistry, home: Path) -> None:
        self._late_renewals = Counter(
            "headrace_late_lease_renewals",
            "Renewals of the lease of this node that came when more than two thirds of the previous"
            " lease had passed.",
            registry=registry,
        )
        size = Gauge(
            "headrace_home_size_bytes",
            "Size of the file system that holds the home of this node.",
            registry=registry,
        )
        size.set_function(lambda: shutil.disk_usage(home).total)
        free = Gauge(
            "headrace_home_free_bytes",
            "Free space, for this node, of the file system that holds its home.",
            registry=registry,
        )
        free.set_function(lambda: shutil.disk_usage(home).free)

    def observe_late_renewal(self) -> None:
        """Count a renewal of the node's lease that came late."""
        self._late_renewals.inc()


class StoreMetrics(Collector):
    """Live rows of the store by state, what needs an operator, and the writes of this node.

    A request takes one query of the store for each kind of object, and one for all measurements.
    """

    def __init__(self, database: Database, registry: CollectorRegistry) -> None:
        self._database = database
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, because otherwise the registration would read the store."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their current values.

        Every live state has a sample, also if its count is 0. While the store does not answer, its
        metrics are missing.
        """
        try:
            of_store = list(self._read_store())
        except StoreUnavailable:
            of_store = []
        yield GaugeMetricFamily(
            "headrace_store_up",
            "1 if this node can read the store. While it is 0, the other metrics of the store are"
            " missing.",
            value=bool(of_store),
        )
        yield from of_store
        writes = CounterMetricFamily(
            "headrace_store_writes",
            "Write transactions of this node. `transaction` is the name, for example `link.ended`.",
            labels=["transaction"],
        )
        for name, count in sorted(self._database.write_counts.items()):
            writes.add_metric([name], count)
        yield writes

    def _read_store(self) -> Iterator[Metric]:
        """Yield the metrics of the store. Raise StoreUnavailable."""
        with self._database.read() as tx:
            live = count_live(tx)
            queries = stream_progress.read_live(tx, MAX_QUERIES)
            measured = [(each, each.read(tx)) for each in MEASUREMENTS]
            lags = schedules.list_lags(tx, _MOST_LAGS)
        for entity, by_state in live.items():
            gauge = GaugeMetricFamily(
                f"headrace_live_{entity}",
                f"Number of {entity} in the store that have not ended, by state.",
                labels=["state"],
            )
            for state, count in by_state.items():
                gauge.add_metric([state], count)
            yield gauge
        for measurement, value in measured:
            yield GaugeMetricFamily(measurement.name, measurement.documentation, value=value)
        yield from make_stream_metrics(queries, live=sum(live["streams"].values()))
        yield from _make_lag_metrics(lags)


def _make_lag_metrics(lags: Iterable[schedules.JobLag]) -> Iterator[Metric]:
    """Yield the lags of jobs, and their limits."""
    lag = GaugeMetricFamily(
        "headrace_job_lag_seconds",
        "Age of the oldest change that a running job with `max-lag` has not read; 0 if it has read"
        f" all. At most {_MOST_LAGS} jobs.",
        labels=["owner", "job"],
    )
    limit = GaugeMetricFamily(
        "headrace_job_max_lag_seconds",
        "The `max-lag` of the jobs in `headrace_job_lag_seconds`.",
        labels=["owner", "job"],
    )
    for each in lags:
        lag.add_metric([each.owner, each.name], each.lag)
        limit.add_metric([each.owner, each.name], each.max_lag)
    yield lag
    yield limit


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


_LATE_SECONDS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600, 6 * 3600, 24 * 3600)


class RunMetrics:
    """Histogram of the lateness of the runs whose first attempt this node has begun."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lateness = Histogram(
            "headrace_run_lateness_seconds",
            "Time from the due time of a run of a batch job until its first attempt began. A run of"
            " a schedule is due at its logical time and `delay`; `trigger` says what has started"
            " the run. The node that begins the attempt observes it, so that each run counts once"
            " in the sum over all nodes. Runs that never begin do not count.",
            ["trigger"],
            buckets=_LATE_SECONDS,
            registry=registry,
        )

    def observe_begin(self, run: JobRun) -> None:
        """Observe the begin of an attempt that is committed. Only the first one of a run counts."""
        if run.attempt == 1:
            _observe(self._lateness.labels(run.trigger), run.due_at, run.started_at)


class OutboxMetrics:
    """Counter of the attempts of this node to send messages."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "headrace_delivery_attempts",
            "Attempts to send a message of the outbox, by event and outcome: `sent`; `postponed`,"
            " if the message is sent again later; `failed`, if it is not sent any more.",
            ["event", "outcome"],
            registry=registry,
        )

    def observe_attempt(self, delivery: Delivery, outcome: AttemptOutcome) -> None:
        """Count an attempt whose outcome is committed."""
        self._attempts.labels(delivery.kind, outcome).inc()


_MAX_EXPECTATIONS = 1000
_OTHER_EXPECTATION = "other"


class ExpectationMetrics:
    """Counters of checked rows: those of followed runs, and of reported batches and refreshes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._labels = set[tuple[str, str, str]]()
        """Expectations with a time series of their own: owner, job and name."""
        self._rows = Counter(
            "headrace_expectation_rows",
            "Rows that an expectation has checked, by outcome: `passed`, `violated`, or `null` if"
            " the condition was NULL. `job` is the name of the job, or the complete name of the"
            f" materialized view. After {_MAX_EXPECTATIONS} expectations, `job` and `expectation`"
            f" of the others are `{_OTHER_EXPECTATION}`.",
            ["owner", "job", "expectation", "outcome"],
            registry=registry,
        )

    def observe(self, run: JobRun, checks: StatementChecks | None) -> None:
        """Count the rows of a statement that has ended; None: it has no expectations."""
        if checks is not None and checks.counts is not None:
            self._count(run.owner, run.name, checks.counts)

    def observe_batch(self, query: StreamQuery, counts: ExpectationCounts) -> None:
        """Count the rows of a batch of a streaming job, or of a view that refreshes itself."""
        self._count(query.owner, query.view_name or query.scope, counts)

    def observe_refresh(self, view: MaterializedView, counts: ExpectationCounts) -> None:
        """Count the rows of a refresh of a materialized view."""
        self._count(view.owner, view.qualified_name, counts)

    def _count(self, owner: str, job: str, counts: ExpectationCounts) -> None:
        for each in counts.expectations:
            labels = (owner, job, each.name)
            if labels not in self._labels and len(self._labels) >= _MAX_EXPECTATIONS:
                labels = (owner, _OTHER_EXPECTATION, _OTHER_EXPECTATION)
            self._labels.add(labels)
            by_outcome = {
                "passed": counts.rows_in - each.violations,
                "violated": each.violations - each.nulls,
                "null": each.nulls,
            }
            for outcome, rows in by_outcome.items():
                self._rows.labels(*labels, outcome).inc(rows)


def _observe(histogram: Histogram, start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None:
        histogram.observe(max(0.0, (end - start).total_seconds()))


def _error_codes(error: type[HeadraceError]) -> Iterator[str]:
    yield error.code
    for child in error.__subclasses__():
        yield from _error_codes(child)
