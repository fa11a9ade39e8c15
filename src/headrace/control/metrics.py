"""Metrics of the store, collected when Prometheus asks for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.control.stream_metrics import MAX_QUERIES, make_stream_metrics
from headrace.errors import StoreUnavailable
from headrace.store import counts, transactions
from headrace.store.database import Database, Tx
from headrace.store.streams import stream_progress

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


class _Number(NamedTuple):
    name: str
    documentation: str
    read: Callable[[Tx], float]


_NUMBERS = (
    _Number(
        "headrace_oldest_waiting_seconds",
        "Time for which the statement that waits longest has waited; 0 if none waits.",
        counts.oldest_waiting_seconds,
    ),
    _Number(
        "headrace_overdue_sessions",
        "Sessions whose driver has an expired lease. A node resolves them soon, unless the backend"
        " or the host of the driver does not answer.",
        counts.overdue_sessions,
    ),
    _Number(
        "headrace_expired_nodes",
        "Nodes that have not ended and whose lease has expired.",
        counts.expired_nodes,
    ),
    _Number(
        "headrace_recently_failed_streams",
        "Streaming queries that have failed, and are not retried, within the last hour.",
        counts.recently_failed_streams,
    ),
    _Number(
        "headrace_expired_results",
        "Results that expired more than 10 minutes ago and are not deleted.",
        counts.expired_results,
    ),
    _Number(
        "headrace_oldest_operation_seconds",
        "Age of the oldest operation of a node that has not ended, such as a deployment; 0 if there"
        " is none.",
        counts.oldest_operation_seconds,
    ),
    _Number(
        "headrace_unresolved_transactions",
        "Table transactions of lost drivers that other drivers could not complete or roll back"
        f" in {transactions.REPORTED_ATTEMPTS} attempts. They are retried every 5 minutes.",
        transactions.count_unresolved,
    ),
)


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
            live = {
                "sessions": counts.live_sessions(tx),
                "statements": counts.live_statements(tx),
                "streams": counts.live_streams(tx),
                "jobs": counts.live_jobs(tx),
                "nodes": counts.live_nodes(tx),
            }
            queries = stream_progress.read_live(tx, MAX_QUERIES)
            numbers = [(number, number.read(tx)) for number in _NUMBERS]
        for entity, by_state in live.items():
            gauge = GaugeMetricFamily(
                f"headrace_live_{entity}",
                f"Number of {entity} in the store that have not ended, by state.",
                labels=["state"],
            )
            for state, count in by_state.items():
                gauge.add_metric([state], count)
            yield gauge
        for number, value in numbers:
            yield GaugeMetricFamily(number.name, number.documentation, value=value)
        yield from make_stream_metrics(queries, live=sum(live["streams"].values()))
