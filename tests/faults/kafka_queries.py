"""The streaming queries of the acceptance run: from one topic to four kinds of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
from tests.faults.kafka_records import COLUMNS, KEYS, LARGE, Rows, count_large, count_topic
from tests.support.kafka import KafkaBroker
from tests.support.node import NodeProcess
from tests.support.postgres import Postgres
from tests.support.waiting import wait_until

QUERIES = ("archive", "lake", "alerts", "warehouse", "totals_lake", "totals_warehouse")
_ROWS = "SELECT count(*), count(DISTINCT id), coalesce(sum(DISTINCT id), 0) FROM"
_TOTALS = "SELECT count(*), count(DISTINCT k), min(n), max(n), sum(total) FROM"
_LIVE_STATES = {"starting", "running", "backing_off"}


@dataclass(frozen=True, slots=True)
class SinkCheck:
    """What a sink holds at the end, beside what it must hold."""

    sink: str
    guarantee: str
    held: Rows | tuple[int, ...]
    expected: Rows | tuple[int, ...]
    allows_duplicates: bool = False

    @property
    def is_right(self) -> bool:
        """Whether no record is lost, and none is there twice unless the sink allows that."""
        if self.allows_duplicates:
            assert isinstance(self.held, Rows)
            assert isinstance(self.expected, Rows)
            return (self.held.distinct, self.held.id_sum) == (
                self.expected.distinct,
                self.expected.id_sum,
            )
        return self.held == self.expected

    def __str__(self) -> str:
        if isinstance(self.held, Rows) and isinstance(self.expected, Rows):
            figures = (
                f"{self.held.distinct:,} of {self.expected.distinct:,} records,"
                f" {self.held.duplicates:,} duplicates"
            )
        else:
            figures = _describe_totals(self.held)
            if not self.is_right:
                figures += f"; expected {_describe_totals(self.expected)}"
        return f"{self.sink} ({self.guarantee}): {figures}"


def _describe_totals(totals: Rows | tuple[int, ...]) -> str:
    assert isinstance(totals, tuple)
    rows, keys, smallest, largest, id_sum = totals
    return f"{rows} rows, {keys} keys, {smallest:,} to {largest:,} records each, sum {id_sum}"


class Queries:
    """Six live queries in one session, and their sinks."""

    def __init__(
        self,
        node: NodeProcess,
        session: str,
        folder: Path,
        broker: KafkaBroker,
        server: Postgres,
        topic: str,
        batch_records: int,
    ) -> None:
        """Prepare queries that read at most so many records in each batch."""
        self._node = node
        self._session = session
        self._folder = folder
        self._broker = broker
        self._server = server
        self._database = server.new_database()
        self._source_topic = topic
        self._batch_records = batch_records
        self._sink_topic = f"{topic}-large"

    def define(self) -> None:
        """Define the streams: the orders, a filter and an aggregation."""
        servers = f"'kafka.bootstrap.servers' = '{self._broker.address}'"
        options = (
            f"{servers}, 'subscribe' = '{self._source_topic}', 'startingOffsets' = 'earliest',"
            f" 'format' = 'json', 'maxOffsetsPerTrigger' = '{self._batch_records}'"
        )
        totals = "SELECT k, count(*) AS n, sum(id) AS total FROM orders GROUP BY k"
        self._must_succeed(f"CREATE STREAM orders ({COLUMNS}) FROM kafka OPTIONS ({options})")
        self._must_succeed(f"CREATE STREAM large_orders AS SELECT * FROM orders WHERE {LARGE}")
        self._must_succeed(f"CREATE STREAM totals AS {totals}")

    def start(self, trigger: str = "") -> None:
        """Start all queries, or continue them from their checkpoints."""
        servers = f"'kafka.bootstrap.servers' = '{self._broker.address}'"
        database = (
            f"'url' = 'jdbc:postgresql://127.0.0.1:{self._server.port}/{self._database}',"
            " 'user' = 'postgres'"
        )
        targets = (
            f"parquet OPTIONS ('path' = '{self._folder}/archive')",
            f"delta OPTIONS ('path' = '{self._folder}/lake')",
            f"kafka OPTIONS ({servers}, 'topic' = '{self._sink_topic}')",
            f"jdbc OPTIONS ({database}, 'dbtable' = 'large_orders')",
            f"delta OUTPUT MODE COMPLETE OPTIONS ('path' = '{self._folder}/totals')",
            f"jdbc OUTPUT MODE COMPLETE OPTIONS ({database}, 'dbtable' = 'totals')",
        )
        for name, target in zip(QUERIES, targets, strict=True):
            source = "totals" if name.startswith("totals") else "large_orders"
            self._must_succeed(f"SAVE STREAM {source} TO {target} IDENTIFIED BY {name} {trigger}")

    def read_batches(self) -> dict[str, int] | None:
        """Return the number of the last batch of each query; None if the node does not answer.

        Raises AssertionError if a query is not live, because then it never continues.
        """
        try:
            response = self._node.http.get("/api/v1/streams", params={"live": True})
        except httpx.TransportError:
            return None
        if response.status_code != 200:
            return None
        live = {query["name"]: query for query in response.json()["items"]}
        for name in QUERIES:
            if name not in live:
                raise AssertionError(f"{name} has ended: {self._node.stream(name)}")
            assert live[name]["state"] in _LIVE_STATES, live[name]
        return {
            name: -1 if live[name]["last_batch"] is None else live[name]["last_batch"]
            for name in QUERIES
        }

    def count_backoffs(self) -> int:
        """Return how often a query has failed and was started again by its supervisor."""
        return sum(
            event["to"] == "backing_off"
            for name in QUERIES
            for event in self._node.events(self._node.stream(name)["id"])
        )

    def count_database_batches(self) -> int:
        """Return the number of batches that the database has, from its ledger."""
        with psycopg.connect(self._server.url(self._database)) as connection:
            row = connection.execute("SELECT sum(batch) FROM headrace_ledger").fetchone()
        assert row is not None
        return int(row[0])

    def drain(self, seconds: float) -> None:
        """Stop all queries, then let each read the rest of the topic and end by itself."""
        for name in QUERIES:
            self._node.act_on_stream(name, "stop")
        self._wait_for_states({"stopped"}, seconds)
        self.start("TRIGGER AVAILABLE NOW")
        self._wait_for_states({"stopped", "failed"}, seconds)
        failed = {
            name: self._node.stream(name)["last_error"]
            for name in QUERIES
            if self._node.stream(name)["state"] == "failed"
        }
        assert not failed, failed

    def check(self, records: int) -> Iterator[SinkCheck]:
        """Compare each sink with the records of the topic."""
        large = count_large(records)
        each = records // KEYS
        totals = (KEYS, KEYS, each, each, records * (records - 1) // 2)
        once, effectively = "exactly once", "effectively once"
        archive, lake = (f"{self._folder}/{name}" for name in ("archive", "lake"))
        yield SinkCheck("Parquet", once, self._count(f"parquet.`{archive}`"), large)
        yield SinkCheck("Delta", once, self._count(f"delta.`{lake}`"), large)
        yield SinkCheck("PostgreSQL", effectively, self._count_in_database(), large)
        yield SinkCheck(
            "Kafka", "at least once", count_topic(self._broker, self._sink_topic), large, True
        )
        rows = self._node.rows(f"{_TOTALS} delta.`{self._folder}/totals`", self._session)
        yield SinkCheck("Delta, totals", once, tuple(int(value) for value in rows[0]), totals)
        held = self._read_database(f"{_TOTALS} totals")
        yield SinkCheck("PostgreSQL, totals", effectively, held, totals)

    def _count(self, table: str) -> Rows:
        rows = self._node.rows(f"{_ROWS} {table}", self._session)
        return Rows(*(int(value) for value in rows[0]))

    def _count_in_database(self) -> Rows:
        return Rows(*self._read_database(f"{_ROWS} large_orders"))

    def _read_database(self, text: str) -> tuple[int, ...]:
        with psycopg.connect(self._server.url(self._database)) as connection:
            row = connection.execute(text.encode()).fetchone()
        assert row is not None
        return tuple(int(value) for value in row)

    def _wait_for_states(self, states: set[str], seconds: float) -> None:
        wait_until(
            lambda: self._states() <= states,
            seconds=seconds,
            what=f"all queries are in the states {states}",
            every=0.5,
        )

    def _states(self) -> set[str]:
        return {self._node.stream(name)["state"] for name in QUERIES}

    def _must_succeed(self, text: str) -> None:
        statement = self._node.run(text, self._session)
        assert statement["state"] == "success", statement
