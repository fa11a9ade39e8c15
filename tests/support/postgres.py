"""Real PostgreSQL servers for the tests: one for the whole run, and others that tests may stop."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.support.shared_services import Address

_NEEDED = "PostgreSQL's server is needed by these tests; on Debian: apt-get install postgresql"
# A test server may forget everything when the machine falls over.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "log_min_messages": "fatal",
}


class Postgres:
    """A server on a port of loopback, which any local user may enter."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, database: str = "postgres") -> str:
        """Return where a database is."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Make a database, a copy of `template`; return its name."""
        name = f"test_{secrets.token_hex(6)}"
        self._command(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        """Drop a database and cut whoever is in it."""
        self._command(f"DROP DATABASE {database} WITH (FORCE)")

    def _command(self, text: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(text)


class PostgresServer(Postgres):
    """A server of this process, on a free port, which it may stop and start."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._log = folder / "log"
        self._as_owner: list[str] = []
        if os.geteuid() == 0:
            # The server refuses to run as root.
            owner = _unprivileged_user()
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            ids = [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}"]
            self._as_owner = ["setpriv", *ids, "--clear-groups", "--"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            super().__init__(probe.getsockname()[1])
        self._options = {
            **_OPTIONS,
            "port": str(self.port),
            "unix_socket_directories": str(folder),
        }
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"
        )
        self.start()

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
    """Run a server during the block. Fail the test where PostgreSQL is not installed."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir="/tmp"))
    try:
        server = PostgresServer(programs, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def start_server(folder: Path) -> Address:
    """Start a server that outlives this process; return the fields of its Postgres.

    Fail the test where no server is installed.
    """
    return {"port": PostgresServer(_programs(), folder).port}


def _programs() -> Path:
    """Return where initdb and pg_ctl are; Debian keeps them outside PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    if shutil.which("pg_config"):
        output = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=True
        )
        places.insert(0, Path(output.stdout.strip()))
    on_path = shutil.which("initdb")
    if on_path:
        places.append(Path(on_path).parent)
    programs = next((place for place in places if (place / "initdb").exists()), None)
    if programs is None:
        pytest.fail(_NEEDED)
    return programs


def _version(place: Path) -> int:
    name = place.parent.name
    return int(name) if name.isdigit() else 0


def _unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
