"""PySpark in one process, without a server between caller and Spark: the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.processes import process_group

ROOT = Path(__file__).parents[2]


class InProcess:
    """Client of in_process_worker.py, which runs and times queries in a separate process."""

    def __init__(self, worker: subprocess.Popen[bytes]) -> None:
        self._worker = worker
        self.versions: dict[str, str] = self._call({})

    def rows_by_to_arrow(self, query: str) -> float:
        """Return the seconds of `spark.sql(query).toArrow().to_pylist()`."""
        return self._seconds(query, "rows by toArrow")

    def rows_by_collect(self, query: str) -> float:
        """Return the seconds of `spark.sql(query).collect()`."""
        return self._seconds(query, "rows by collect")

    def to_arrow(self, query: str) -> float:
        """Return the seconds of `spark.sql(query).toArrow()`."""
        return self._seconds(query, "table")

    def rate(self, query: str, *, threads: int, seconds: float) -> float:
        """Return how many times per second threads that repeat `collect()` of a query end."""
        request = {"query": query, "threads": threads, "seconds": seconds}
        per_second: float = self._call({"rate": request})["rate"]
        return per_second

    def write_stream(
        self, *, schema: str, source: Mapping[str, str], sink: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Copy JSON files to Parquet with a streaming query; return Spark's reports of its batches.

        Args:
            source: Options of the source.
            sink: Options of the sink.
        """
        request = {"schema": schema, "source": source, "sink": sink}
        reports: list[dict[str, Any]] = self._call({"stream": request})["reports"]
        return reports

    def _seconds(self, query: str, form: str) -> float:
        seconds: float = self._call({"query": query, "form": form})["seconds"]
        return seconds

    def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        pipe_in, pipe_out = self._worker.stdin, self._worker.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        pipe_in.write(json.dumps(request).encode() + b"\n")
        pipe_in.flush()
        line = pipe_out.readline()
        if not line:
            raise RuntimeError("the in-process worker has ended; see its log for the reason")
        response: dict[str, Any] = json.loads(line)
        return response


@contextmanager
def in_process(folder: Path, conf: Mapping[str, str] | None = None) -> Iterator[InProcess]:
    """Start a worker with a Spark session; `conf` is added to CONF. Its log is in `folder`."""
    command = [sys.executable, "-m", "benchmarks.peers.in_process_worker", json.dumps(conf or {})]
    with process_group(command, folder, {"PYTHONPATH": str(ROOT)}, pipes=True) as process:
        yield InProcess(process)
