"""Gauges of streaming queries, on SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import event
from tests.support.store import running_session

from headrace.control import metrics
from headrace.control.metrics import StoreMetrics
from headrace.model.ids import new_id
from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import NewStreamQuery, QueryProgress, QueryReport, QuerySpec
from headrace.store.database import Database
from headrace.store.streams import stream_progress, stream_queries, stream_transitions

PREFIX = "headrace_stream_"


class Queries:
    """The queries of one session, and what its driver reports about them."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._lease = running_session(store)

    def start(self, name: str) -> str:
        new = NewStreamQuery(
            id=new_id("sq"),
            owner="ada",
            scope="adhoc",
            name=name,
            spec=QuerySpec(text=f"SAVE STREAM t TO noop IDENTIFIED BY `{name}`", sink="noop"),
            checkpoint_place=None,
            session_id=self._lease.session_id,
            statement_id=None,
        )
        with self._store.write("test") as tx:
            stream_queries.insert_query(tx, new, actor="ada")
        return new.id

    def report(
        self, query_id: str, state: StreamState, *batches: QueryProgress, **facts: Any
    ) -> None:
        report = QueryReport(
            id=query_id,
            generation=1,
            state=state,
            last_batch=batches[-1].batch if batches else None,
            progress=list(batches),
            **facts,
        )
        with self._store.write("test") as tx:
            assert stream_transitions.apply_reports(tx, self._lease, [report])
            stream_progress.save(tx, query_id, batches)


@pytest.fixture
def queries(store: Database) -> Queries:
    return Queries(store)


def make_batch(number: int, **values: Any) -> QueryProgress:
    given = {
        "batch": number,
        "at": "2026-11-23T10:00:00.000Z",
        "input_rows": 10,
        "input_rate": 5.0 + number,
        "process_rate": 20.0,
        "milliseconds": 1500,
    }
    return QueryProgress(**(given | values))


def read_samples(store: Database) -> dict[tuple[str, str], float]:
    """Return the samples of streams, by their name without its prefix and their query."""
    registry = CollectorRegistry()
    StoreMetrics(store, registry)
    return {
        (sample.name.removeprefix(PREFIX), sample.labels["query"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if "query" in sample.labels
    }


def test_a_running_query_has_the_measurements_of_its_newest_batch(
    store: Database, queries: Queries
) -> None:
    query = queries.start("orders")
    queries.report(query, StreamState.RUNNING, *(make_batch(number) for number in range(3)))
    newest = make_batch(
        103,
        lag={"KafkaV2[Subscribe[a]]": 7, "KafkaV2[Subscribe[b]]": 3, "other": "unknown"},
        watermark="1970-01-01T00:01:00.000Z",
        late_rows=3,
        state_rows=4,
        state_bytes=512,
    )
    queries.report(query, StreamState.RUNNING, newest, failures=2)

    values = {name: value for (name, owner), value in read_samples(store).items()}
    assert values == {
        "failures": 2,
        "input_rows_per_second": 108.0,
        "processed_rows_per_second": 20.0,
        "batch_duration_seconds": 1.5,
        "batch_timestamp_seconds": 1795428000.0,
        "lag_records": 10,
        "watermark_timestamp_seconds": 60,
        "late_rows": 3,
        "state_rows": 4,
        "state_bytes": 512,
    }


def test_a_query_that_backs_off_has_no_rates(store: Database, queries: Queries) -> None:
    query = queries.start("orders")
    queries.report(query, StreamState.RUNNING, make_batch(0, watermark="soon", at="now"))
    queries.report(query, StreamState.BACKING_OFF, failures=1, delay_seconds=60, retry_seconds=60)

    samples = read_samples(store)
    assert samples["failures", "orders"] == 1
    assert samples["input_rows_per_second", "orders"] == 0
    assert samples["processed_rows_per_second", "orders"] == 0
    assert samples["batch_duration_seconds", "orders"] == 1.5
    assert ("lag_records", "orders") not in samples
    assert ("watermark_timestamp_seconds", "orders") not in samples
    assert ("batch_timestamp_seconds", "orders") not in samples


def test_queries_without_batches_and_ended_queries_have_no_measurements(
    store: Database, queries: Queries
) -> None:
    queries.start("new")
    ended = queries.start("ended")
    queries.report(ended, StreamState.RUNNING, make_batch(0))
    queries.report(ended, StreamState.STOPPED)

    assert read_samples(store) == {("failures", "new"): 0}


def test_the_number_of_series_is_limited(
    store: Database, queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_QUERIES", 2)
    for name in ("a", "b", "c", "d", "e"):
        queries.start(name)
    registry = CollectorRegistry()
    StoreMetrics(store, registry)

    assert len(read_samples(store)) == 2
    assert registry.get_sample_value("headrace_streams_omitted") == 3


def test_long_names_do_not_collide(store: Database, queries: Queries) -> None:
    ids = [queries.start("x" * 1000 + end) for end in ("a", "b")]

    assert {query for _name, query in read_samples(store)} == set(ids)


def test_the_number_of_reads_does_not_depend_on_the_number_of_queries(
    store: Database, queries: Queries
) -> None:
    reads: list[str] = []
    registry = CollectorRegistry()
    StoreMetrics(store, registry)

    def count_reads() -> int:
        reads.clear()
        list(registry.collect())
        return len(reads)

    with store.read() as tx:
        engine = tx.connection.engine
    event.listen(engine, "before_cursor_execute", lambda _c, _cursor, sql, *_: reads.append(sql))
    before = count_reads()
    for name in ("a", "b", "c"):
        queries.report(queries.start(name), StreamState.RUNNING, make_batch(0))

    assert count_reads() == before
