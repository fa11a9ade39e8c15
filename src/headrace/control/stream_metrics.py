"""Gauges of single streaming queries: the measurements of their newest batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric

from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import MeasuredQuery, QueryProgress

MAX_QUERIES = 500
"""Largest number of queries with gauges, because each is a time series of every metric."""
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
