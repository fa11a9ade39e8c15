"""The supervisor of the metastore, without a JVM."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from headrace.control.host import metastore_supervisor

ANSWERS_ONCE = """
import pathlib, os, socket
with socket.socket(fileno=0) as listener:
    pathlib.Path("ready").touch()
    with listener.accept()[0] as connection:
        connection.sendall(str(os.getpid()).encode())
"""
RUN_NEXT = """
import pathlib
programs = sorted(pathlib.Path().glob("*.py"))
text = programs[0].read_text()
if len(programs) > 1:
    programs[0].unlink()
exec(text)
"""
FAILS = "raise SystemExit(1)"
HANGS = "import time; time.sleep(600)"
STARTS_AND_FAILS = "import pathlib; pathlib.Path('ready').touch(); raise SystemExit(1)"


@contextmanager
def supervised(programs: list[str], folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the address of Python programs that the supervisor runs instead of a metastore.

    Each start runs the next program, and then the last one again and again.
    """
    for number, program in enumerate(programs):
        (folder / f"{number}.py").write_text(program)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        supervisor = threading.Thread(
            target=metastore_supervisor._supervise,
            args=[folder, [sys.executable, "-c", RUN_NEXT], listener, 60.0, stop],
        )
        supervisor.start()
        try:
            yield listener.getsockname()
        finally:
            stop.set()
            supervisor.join()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_POLL_SECONDS", "_RESTART_SECONDS"):
        monkeypatch.setattr(metastore_supervisor, pause, 0.02)


def receive(address: tuple[str, int]) -> bytes:
    """Return what a server sends until it closes the connection."""
    with socket.create_connection(address, timeout=30) as connection:
        return connection.makefile("rb").read()


def test_a_connection_waits_while_the_metastore_is_restarted(tmp_path: Path) -> None:
    with supervised([ANSWERS_ONCE], tmp_path) as address:
        first, second = receive(address), receive(address)
    assert int(first) != int(second)


@pytest.mark.parametrize(
    "programs", [[FAILS, FAILS, ANSWERS_ONCE], [*[STARTS_AND_FAILS] * 4, ANSWERS_ONCE]]
)
def test_a_connection_waits_for_a_metastore_that_starts_late(
    tmp_path: Path, programs: list[str]
) -> None:
    with supervised(programs, tmp_path) as address:
        assert receive(address).isdigit()


@pytest.mark.parametrize(
    ("file", "is_complete"),
    [("service.properties", True), ("service.propertiesold", True), ("log/log1.dat", False)],
)
def test_a_database_whose_creation_was_interrupted_does_not_stop_the_metastore(
    tmp_path: Path, file: str, is_complete: bool
) -> None:
    for name in ("db", "db.incomplete"):
        (tmp_path / name / file).parent.mkdir(parents=True)
        (tmp_path / name / file).write_text(name)
    with supervised([ANSWERS_ONCE], tmp_path) as address:
        assert receive(address).isdigit()
    assert (tmp_path / "db").exists() == is_complete
    kept = "db.incomplete" if is_complete else "db"
    assert (tmp_path / "db.incomplete" / file).read_text() == kept


def test_a_metastore_starts_when_the_one_of_another_supervisor_has_ended(tmp_path: Path) -> None:
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        address = first.enter_context(supervised([ANSWERS_ONCE], tmp_path))
        wait_until((tmp_path / "ready").exists, what="the first metastore is ready")
        next_address = second.enter_context(supervised([ANSWERS_ONCE], tmp_path))
        with socket.create_connection(next_address, timeout=30) as connection:
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            assert receive(address).isdigit()
            first.close()
            connection.settimeout(30)
            assert connection.recv(1).isdigit()


@pytest.mark.parametrize(("program", "start_seconds"), [(FAILS, 120.0), (HANGS, 0.5)])
def test_a_connection_is_closed_if_no_metastore_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, start_seconds: float
) -> None:
    monkeypatch.setattr(metastore_supervisor, "_START_SECONDS", start_seconds)
    with supervised([program], tmp_path) as address:
        assert receive(address) == b""


def test_an_unused_metastore_gives_up_its_record_unless_it_has_a_user_again(
    tmp_path: Path,
) -> None:
    record, users = tmp_path / "metastore.json", tmp_path / "users.lock"
    record.touch()
    with users.open("w") as user:
        fcntl.flock(user, fcntl.LOCK_SH)
        assert not metastore_supervisor._give_up_record(tmp_path)
        assert record.exists()
    assert metastore_supervisor._give_up_record(tmp_path)
    assert not record.exists()


@contextmanager
def waiting_supervisor(file: Path, stop: threading.Event) -> Iterator[tuple[str, int]]:
    """Yield the address of a metastore that waits, and expect the wait to end in the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        waiting = threading.Thread(
            target=metastore_supervisor._wait_until_wanted, args=[file, listener, stop], daemon=True
        )
        waiting.start()
        waiting.join(30 if stop.is_set() else 0.2)
        assert waiting.is_alive() != stop.is_set()
        yield listener.getsockname()
        wait_until(lambda: not waiting.is_alive(), what="the end of the wait")


def test_a_metastore_waits_until_a_driver_wants_it(tmp_path: Path) -> None:
    with waiting_supervisor(tmp_path / "wanted", threading.Event()):
        (tmp_path / "wanted").touch()


def test_a_metastore_waits_until_a_driver_connects(tmp_path: Path) -> None:
    with (
        contextlib.ExitStack() as stack,
        waiting_supervisor(tmp_path / "wanted", threading.Event()) as address,
    ):
        stack.enter_context(socket.create_connection(address))


def test_a_supervisor_that_stops_does_not_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with waiting_supervisor(tmp_path / "wanted", stop):
        pass
