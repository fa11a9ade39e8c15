"""The socket source, with a real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import StartRun, read_rows
from tests.support.waiting import wait_until

from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LineServer:
    """A server that sends lines to the connection of a query."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self._connections: list[socket.socket] = []
        port = self._listener.getsockname()[1]
        self.stream = (
            f"CREATE STREAM lines FROM socket OPTIONS ('host' = '127.0.0.1', 'port' = '{port}')"
        )

    def accept(self) -> None:
        """Accept the connection of the next run."""
        self._connections.append(self._listener.accept()[0])

    def send(self, lines: list[str]) -> None:
        """Send lines to the last run."""
        self._connections[-1].sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        for each in (self._listener, *self._connections):
            each.close()


@contextmanager
def suppress_temporary_failure() -> Iterator[None]:
    """Suppress a failure after which supervision starts the next run."""
    try:
        yield
    except RunFailed as error:
        if error.is_permanent:
            raise


@pytest.fixture
def server() -> Iterator[LineServer]:
    server = LineServer()
    yield server
    server.close()


def test_lines_arrive_once_and_are_not_read_again_after_a_restart(
    start: StartRun, spark: SparkSession, server: LineServer, tmp_path: Path
) -> None:
    def read_lines(prefix: str = "") -> list[str]:
        rows = spark.read.schema("value STRING").json(str(tmp_path / "default"))
        lines = (row["value"] for row in read_rows(rows))
        return sorted(line for line in lines if line.startswith(prefix))

    def run_until_lines_arrive(prefix: str, number: int) -> None:
        """Start a run, send lines to it, and stop it when one is in the sink. Raises RunFailed."""
        run = start("SAVE STREAM lines TO json TRIGGER 100 MILLISECONDS", server.stream)
        server.accept()
        server.send([f"{prefix}{line}" for line in range(number)])

        def has_arrived() -> bool:
            assert not run.wait()
            return bool(read_lines(prefix))

        wait_until(has_arrived, what=f"a line {prefix} arrives")
        run.stop()

    run_until_lines_arrive("a", number=1)
    assert read_lines() == ["a0"]
    for attempt in range(1, 6):
        # The checkpoint has a position that the new connection can lack. Then the run fails, as it
        # would under supervision, and the next run passes that position with more lines.
        with suppress_temporary_failure():
            run_until_lines_arrive(f"b{attempt}-", 1_000 * attempt)
            break

    assert read_lines("a") == ["a0"]
    assert read_lines("b")
    assert len(read_lines("b")) == len(set(read_lines("b")))
