"""PySpark in one process, with nothing between caller and Spark: the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.processes import group

ROOT = Path(__file__).parents[2]


class InProcess:
    """Asks in_process_worker.py, which runs and times queries in a process of its own."""

    def __init__(self, worker: subprocess.Popen[bytes]) -> None:
        self._worker = worker
        self.versions: dict[str, str] = self._ask({})

    def rows_by_to_arrow(self, query: str) -> float:
        """Seconds of `spark.sql(query).toArrow().to_pylist()`."""
        return self._seconds(query, "rows by toArrow")

    def rows_by_collect(self, query: str) -> float:
        """Seconds of `spark.sql(query).collect()`."""
        return self._seconds(query, "rows by collect")

    def to_arrow(self, query: str) -> float:
        """Seconds of `spark.sql(query).toArrow()`."""
        return self._seconds(query, "table")

    def _seconds(self, query: str, form: str) -> float:
        seconds: float = self._ask({"query": query, "form": form})["seconds"]
        return seconds

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        pipe_in, pipe_out = self._worker.stdin, self._worker.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        pipe_in.write(json.dumps(question).encode() + b"\n")
        pipe_in.flush()
        line = pipe_out.readline()
        if not line:
            raise RuntimeError("the in-process worker has ended; its log says why")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def in_process(folder: Path, conf: Mapping[str, str] | None = None) -> Iterator[InProcess]:
    """A worker with a running Spark session, and its log in `folder`; `conf` is added to CONF."""
    command = [sys.executable, "-m", "benchmarks.peers.in_process_worker", json.dumps(conf or {})]
    with group(command, folder, {"PYTHONPATH": str(ROOT)}, pipes=True) as process:
        yield InProcess(process)
