"""The socket source, with a real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import StartRun, read_rows
from tests.support.waiting import wait_until

from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class LineServer:
    """A server that sends lines to the connection of a query."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self._connections: list[socket.socket] = []
        port = self._listener.getsockname()[1]
        self.stream = (
            f"CREATE STREAM lines FROM socket OPTIONS ('host' = '127.0.0.1', 'port' = '{port}')"
        )

    def accept(self) -> None:
        """Accept the connection of the next run."""
        self._connections.append(self._listener.accept()[0])

    def send(self, line: str) -> None:
        """Send a line to the last run."""
        self._connections[-1].sendall(f"{line}\n".encode())

    def close(self) -> None:
        for each in (self._listener, *self._connections):
            each.close()


@pytest.fixture
def server() -> Iterator[LineServer]:
    server = LineServer()
    yield server
    server.close()


def test_lines_arrive_once_and_are_not_read_again_after_a_restart(
    start: StartRun, spark: SparkSession, server: LineServer, tmp_path: Path
) -> None:
    def read_lines() -> list[str]:
        rows = spark.read.schema("value STRING").json(str(tmp_path / "default"))
        return sorted(row["value"] for row in read_rows(rows))

    def run_until_a_line_arrives(prefix: str) -> None:
        """Start a run, and send lines to it until one is in the sink. Raises RunFailed."""
        run = start("SAVE STREAM lines TO json TRIGGER 100 MILLISECONDS", server.stream)
        server.accept()
        numbers = count()

        def has_arrived() -> bool:
            server.send(f"{prefix}{next(numbers)}")
            assert not run.wait()
            return any(line.startswith(prefix) for line in read_lines())

        wait_until(has_arrived, what=f"a line {prefix} arrives")
        run.stop()

    run_until_a_line_arrives("a")
    before = [line for line in read_lines() if line.startswith("a")]
    for attempt in ("b", "c"):
        # The checkpoint has a position that the new connection lacks: a run can fail once.
        try:
            run_until_a_line_arrives(attempt)
        except RunFailed as error:
            assert not error.is_permanent  # noqa: PT017 - the run may also succeed

    lines = read_lines()
    assert [line for line in lines if line.startswith("a")] == before
    assert any(line.startswith(("b", "c")) for line in lines)
    assert len(lines) == len(set(lines))
