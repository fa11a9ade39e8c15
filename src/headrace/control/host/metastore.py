"""The default persistent catalog: a Hive metastore of this home, from PySpark's own jars.

It runs under a keeper (metastore_keeper.py) that outlives node and drivers as they outlive each
other. Whoever uses it holds a shared lock on `metastore/users.lock`; the kernel drops the lock of
a process that dies, and the keeper ends once nobody has held it for a while. Nobody waits for it
here: a driver starts beside it, and Spark's Hive client retries until it answers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from headrace.control.host.java import find_java
from headrace.private_files import write_private

CONNECT_SECONDS = 120
"""How long the first use of the catalog waits for the metastore to come up."""


@dataclass(frozen=True, slots=True)
class SupervisorRecord:
    """What `metastore/metastore.json` says of the process that keeps the metastore running."""

    pid: int
    created: float
    port: int


class Metastore:
    """The metastore of one home."""

    def __init__(self, home: Path, *, warehouse: str, linger_seconds: float) -> None:
        self._folder = home.absolute() / "metastore"
        self._warehouse = warehouse
        self._linger_seconds = linger_seconds
        self._held: int | None = None

    @property
    def users_lock(self) -> Path:
        """The file whose shared lock keeps the metastore running."""
        return self._folder / "users.lock"

    def ensure(self) -> dict[str, str]:
        """Starts it unless it runs, without waiting, and gives the Spark configuration to use it.

        Raises JavaMissing, and OSError when the process cannot be started.
        """
        self.hold()
        with _exclusive(self._folder / "start.lock"):
            keeper = self._running()
            if keeper is None:
                keeper = self._start(self._port())
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{keeper.port}",
            "spark.hadoop.hive.metastore.connect.retries": str(CONNECT_SECONDS),
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
        }

    def hold(self) -> None:
        """Counts this process among the users, until `release`."""
        if self._held is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._held = os.open(self.users_lock, os.O_RDONLY | os.O_CREAT, 0o600)
            fcntl.flock(self._held, fcntl.LOCK_SH)

    def release(self) -> None:
        """Takes this process out of the users."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def stop(self) -> None:
        """Ends the metastore now; for a home whose last user is leaving."""
        self.release()
        keeper = self._running()
        if keeper is not None:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(keeper.pid)
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=10)

    def _running(self) -> SupervisorRecord | None:
        keeper = self._last()
        if keeper is None:
            return None
        try:
            alive = psutil.Process(keeper.pid).create_time() == keeper.created
        except psutil.Error:
            return None
        return keeper if alive else None

    def _last(self) -> SupervisorRecord | None:
        try:
            return SupervisorRecord(**json.loads((self._folder / "metastore.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _port(self) -> int:
        """The port it had before, so that running drivers find it again; else a free one."""
        last = self._last()
        for wanted in (last.port if last else 0, 0):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", wanted))
                except OSError:
                    continue
                return int(probe.getsockname()[1])
        raise OSError("there is no free port on 127.0.0.1")

    def _start(self, port: int) -> SupervisorRecord:
        with (self._folder / "metastore.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "headrace.control.host.metastore_supervisor"),
                    *("--folder", str(self._folder), "--port", str(port)),
                    *("--warehouse", self._warehouse),
                    *("--linger", str(self._linger_seconds)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "JAVA_HOME": str(find_java().path)},
            )
        keeper = SupervisorRecord(process.pid, psutil.Process(process.pid).create_time(), port)
        write_private(
            self._folder / "metastore.json",
            json.dumps({"pid": keeper.pid, "created": keeper.created, "port": port}),
        )
        return keeper


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    with file.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
