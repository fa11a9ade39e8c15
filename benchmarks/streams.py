"""Rows per second of a streaming query: under Headrace's supervision, and as a bare `writeStream`.

Both sides read the same JSON files in batches and write Parquet. Spark's own reports of the batches
give the rows and the time, from the start of the first batch to the commit of the last one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import NodeClient, node_process
from benchmarks.peers.in_process import InProcess, in_process
from benchmarks.peers.processes import CONF, wait_for

BARE, SUPERVISED = "PySpark in process, `writeStream`", "Headrace, `SAVE STREAM`"
FILES, ROWS_PER_FILE, FILES_PER_BATCH = 24, 30_000, 2
ROWS = FILES * ROWS_PER_FILE
BATCHES = FILES // FILES_PER_BATCH
COLUMNS = "id BIGINT, k INT, at TIMESTAMP, name STRING, amount DOUBLE"
_SESSION = "streams"


@dataclass(frozen=True, slots=True)
class Batch:
    """Spark's report of one committed batch."""

    start: datetime
    milliseconds: int
    rows: int

    @property
    def end(self) -> float:
        return self.start.timestamp() + self.milliseconds / 1000


def rows_per_second(batches: list[Batch]) -> float:
    """Return the rate from the start of the first batch to the commit of the last one."""
    assert len(batches) == BATCHES, len(batches)
    assert sum(batch.rows for batch in batches) == ROWS
    return ROWS / (batches[-1].end - batches[0].start.timestamp())


def stream_rates(folder: Path, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Measure both sides in alternating order, in rows per second."""
    source = folder / "numbers"
    _write_files(source)
    with in_process(folder / "bare") as spark, _streaming_node(folder, source) as query:
        bare = BareQuery(spark, source, folder / "bare" / "stream")
        return interleaved(
            {BARE: bare.measure, SUPERVISED: query.measure}, warm_up=warm_up, rounds=rounds
        )


class BareQuery:
    """The query without Headrace."""

    def __init__(self, spark: InProcess, source: Path, folder: Path) -> None:
        self._spark = spark
        self._source = source
        self._folder = folder

    def measure(self) -> float:
        """Run the query over all files, and return its rows per second."""
        reports = self._spark.write_stream(
            schema=COLUMNS,
            source={"path": str(self._source), "maxFilesPerTrigger": str(FILES_PER_BATCH)},
            sink={
                "path": str(self._folder / "rows"),
                "checkpointLocation": str(self._folder / "checkpoint"),
            },
        )
        shutil.rmtree(self._folder)
        return rows_per_second(
            [
                _make_batch(
                    report["timestamp"],
                    report["durationMs"]["triggerExecution"],
                    report["numInputRows"],
                )
                for report in reports
                if "addBatch" in report["durationMs"]
            ]
        )


class SupervisedQuery:
    """The query as a statement, which the driver of a node supervises."""

    def __init__(self, node: NodeClient, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._node = node
        self._process = process
        self._folder = folder
        self._numbers = count()

    def define(self, source: Path) -> None:
        """Define the stream that the query reads."""
        options = f"'path' = '{source}', 'maxFilesPerTrigger' = '{FILES_PER_BATCH}'"
        self._run(f"CREATE STREAM numbers ({COLUMNS}) FROM json OPTIONS ({options})")

    def measure(self) -> float:
        """Run the query over all files, and return its rows per second."""
        name = f"copy_{next(self._numbers)}"
        folder = self._folder / name
        options = f"'path' = '{folder / 'rows'}', 'checkpointLocation' = '{folder / 'checkpoint'}'"
        self._run(
            f"SAVE STREAM numbers TO parquet IDENTIFIED BY {name} TRIGGER AVAILABLE NOW"
            f" OPTIONS ({options})"
        )
        query: dict[str, Any] = {}

        def has_ended() -> bool:
            query.update(self._node.call("GET", f"/api/v1/streams/{name}"))
            return query["state"] in {"stopped", "failed"}

        # A request takes time of the cores that the query uses.
        wait_for(has_ended, self._process, "the end of the query", every=1.0)
        shutil.rmtree(folder)
        return rows_per_second(
            [
                _make_batch(report["at"], report["milliseconds"], report["input_rows"])
                for report in query["progress"]
            ]
        )

    def _run(self, text: str) -> None:
        body = {"statement": text, "session": _SESSION, "wait_timeout": "60s"}
        self._node.wait_for_success(self._node.call("POST", "/api/v1/statements", body))


@contextmanager
def _streaming_node(folder: Path, source: Path) -> Iterator[SupervisedQuery]:
    """Start a node with a streaming session in which the stream is defined."""
    conf = {"spark.driver.memory": CONF["spark.driver.memory"]}
    with node_process(folder / "supervised") as (node, process):
        body = {"name": _SESSION, "kind": "streaming", "conf": conf}
        session = node.call("POST", "/api/v1/sessions", body)["id"]
        query = SupervisedQuery(node, process, folder / "supervised" / "stream")
        query.define(source)
        yield query
        node.call("DELETE", f"/api/v1/sessions/{session}")
        states = {"dead", "failed"}
        wait_for(
            lambda: node.call("GET", f"/api/v1/sessions/{session}")["state"] in states,
            process,
            "the end of the session",
        )


def _make_batch(start: str, milliseconds: int, rows: int) -> Batch:
    return Batch(datetime.fromisoformat(start), milliseconds, rows)


def _write_files(folder: Path) -> None:
    folder.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        lines = (
            json.dumps(
                {
                    "id": id_,
                    "k": id_ % 1000,
                    "at": f"2026-11-22T10:{id_ % 60:02}:00Z",
                    "name": f"customer {id_ % 5000}",
                    "amount": id_ / 7,
                }
            )
            for id_ in ids
        )
        (folder / f"{number:03}.json").write_text("\n".join(lines))
