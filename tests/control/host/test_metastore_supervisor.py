"""The supervisor of the metastore, without a JVM."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from headrace.control.host import metastore_supervisor

SENDS_ITS_PID = """
import os, socket
with socket.socket(fileno=0) as listener:
    while True:
        with listener.accept()[0] as connection:
            connection.sendall(str(os.getpid()).encode())
"""
FAILS = "raise SystemExit(1)"


@contextmanager
def supervised(
    program: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, int]]:
    """Yield the address of a Python program that the supervisor runs instead of a metastore."""
    for seconds in ("_POLL_SECONDS", "_RESTART_SECONDS"):
        monkeypatch.setattr(metastore_supervisor, seconds, 0.02)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        supervisor = threading.Thread(
            target=metastore_supervisor._supervise,
            args=[folder, [sys.executable, "-c", program], listener, 60.0, stop],
        )
        supervisor.start()
        try:
            yield listener.getsockname()
        finally:
            stop.set()
            supervisor.join()


def receive(address: tuple[str, int]) -> bytes:
    """Return what a server sends until it closes the connection."""
    with socket.create_connection(address, timeout=30) as connection:
        return connection.makefile("rb").read()


def test_a_connection_waits_while_the_metastore_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with supervised(SENDS_ITS_PID, tmp_path, monkeypatch) as address:
        first = int(receive(address))
        os.kill(first, signal.SIGKILL)
        assert int(receive(address)) != first


def test_a_connection_is_closed_when_no_metastore_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with supervised(FAILS, tmp_path, monkeypatch) as address:
        assert receive(address) == b""


def test_a_metastore_waits_until_a_driver_wants_it(tmp_path: Path) -> None:
    file, stop = tmp_path / "wanted", threading.Event()
    waiting = threading.Thread(
        target=metastore_supervisor._wait_until_wanted, args=[file, stop], daemon=True
    )
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    file.touch()
    wait_until(lambda: not waiting.is_alive(), what="the end of the wait")


def test_a_supervisor_that_stops_does_not_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    waiting = threading.Thread(
        target=metastore_supervisor._wait_until_wanted,
        args=[tmp_path / "wanted", stop],
        daemon=True,
    )
    waiting.start()
    wait_until(lambda: not waiting.is_alive(), what="the end of the wait")
