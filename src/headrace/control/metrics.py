"""What a node tells Prometheus of the store: counted when asked, so that it costs nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.store import counts
from headrace.store.database import Database


class StoreMetrics(Collector):
    """Live sessions and statements of the whole store, and this node's transactions."""

    def __init__(self, database: Database, registry: CollectorRegistry) -> None:
        self._database = database
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Nothing: else registering would ask the store."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now. Raises StoreUnavailable."""
        with self._database.read() as tx:
            counted = {
                "sessions": counts.live_sessions(tx),
                "statements": counts.live_statements(tx),
            }
        for what, by_state in counted.items():
            gauge = GaugeMetricFamily(
                f"headrace_live_{what}",
                f"Those {what} of the store that have not ended.",
                labels=["state"],
            )
            for state, count in by_state.items():
                gauge.add_metric([state], count)
            yield gauge
        yield CounterMetricFamily(
            "headrace_store_writes",
            "Write transactions of this node.",
            value=self._database.write_count,
        )
