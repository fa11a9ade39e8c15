"""Metrics of the store, collected when Prometheus asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.control.stream_metrics import MAX_QUERIES, make_stream_metrics
from headrace.store import counts, stream_progress, transactions
from headrace.store.database import Database

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


class StoreMetrics(Collector):
    """Live sessions, statements and streaming queries of the store, and the writes of this node.

    A request takes one query of the store for each kind of object, and one for all measurements.
    """

    def __init__(self, database: Database, registry: CollectorRegistry) -> None:
        self._database = database
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, because otherwise the registration would read the store."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their current values. Raise StoreUnavailable.

        Every live state has a sample, also if its count is 0.
        """
        with self._database.read() as tx:
            live = {
                "sessions": counts.live_sessions(tx),
                "statements": counts.live_statements(tx),
                "streams": counts.live_streams(tx),
            }
            queries = stream_progress.read_live(tx, MAX_QUERIES)
            unresolved = transactions.count_unresolved(tx)
        for entity, by_state in live.items():
            gauge = GaugeMetricFamily(
                f"headrace_live_{entity}",
                f"Number of {entity} in the store that have not ended, by state.",
                labels=["state"],
            )
            for state, count in by_state.items():
                gauge.add_metric([state], count)
            yield gauge
        yield GaugeMetricFamily(
            "headrace_unresolved_transactions",
            "Table transactions of lost drivers that other drivers could not complete or roll back"
            f" in {transactions.REPORTED_ATTEMPTS} attempts. They are retried every 5 minutes.",
            value=unresolved,
        )
        yield from make_stream_metrics(queries, live=sum(live["streams"].values()))
        writes = CounterMetricFamily(
            "headrace_store_writes",
            "Write transactions of this node. `transaction` is the name, for example `link.ended`.",
            labels=["transaction"],
        )
        for name, count in sorted(self._database.write_counts.items()):
            writes.add_metric([name], count)
        yield writes
