"""A real PostgreSQL server for the tests, in a temporary folder, gone when they end."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

_NEEDED = "PostgreSQL's server is needed by these tests; on Debian: apt-get install postgresql"
# A test server may forget everything when the machine falls over.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """A server on a free port of loopback, which any local user may enter."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._log = folder / "log"
        self._databases = count()
        self._as_owner: list[str] = []
        if os.geteuid() == 0:
            # The server refuses to run as root.
            owner = _unprivileged_user()
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            ids = [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}"]
            self._as_owner = ["setpriv", *ids, "--clear-groups", "--"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._options = {
            **_OPTIONS,
            "port": str(self.port),
            "unix_socket_directories": str(folder),
        }
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"
        )
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Where a database is."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = " ".join(f"-c {name}={value}" for name, value in self._options.items())
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._log, "-o", options)

    def stop(self) -> None:
        """Cut all connections and end the server."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", "fast")

    def start_again(self) -> None:
        """Start the server if it is down."""
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            self.start()

    def new_database(self, template: str = "template1") -> str:
        """Make a database, a copy of `template`; returns its name."""
        name = f"test_{next(self._databases)}"
        self._command(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        """Drop a database and cut whoever is in it."""
        self._command(f"DROP DATABASE {database} WITH (FORCE)")

    def _command(self, text: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(text)

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*self._as_owner, str(self._programs / program), *map(str, arguments)]
        # The server keeps what it inherits, so its output must not be a pipe of ours.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                check=False,
            )
            output.seek(0)
            assert done.returncode == 0, f"{' '.join(command)}: {output.read().decode()}"


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server for the length of the block; fails the test where none is installed."""
    programs = _programs()
    if programs is None:
        pytest.fail(_NEEDED)
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir="/tmp"))
    try:
        server = PostgresServer(programs, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _programs() -> Path | None:
    """Where initdb and pg_ctl are; Debian keeps them outside PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    if shutil.which("pg_config"):
        told = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        places.insert(0, Path(told.stdout.strip()))
    on_path = shutil.which("initdb")
    if on_path:
        places.append(Path(on_path).parent)
    return next((place for place in places if (place / "initdb").exists()), None)


def _version(place: Path) -> int:
    name = place.parent.name
    return int(name) if name.isdigit() else 0


def _unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
