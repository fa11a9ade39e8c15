"""PostgreSQL servers for the tests: one for the whole run, and others that tests may stop."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.support.ports import free_port
from tests.support.shared_services import Address
from tests.support.waiting import wait_until

_NEEDED = (
    "No PostgreSQL server is installed, and these tests need one."
    " On Debian, run: apt-get install postgresql"
)
# A test server does not need to survive a crash of the machine.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "400",
    "log_min_messages": "fatal",
}


class Postgres:
    """A server on a port of the loopback interface that accepts every local user."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Create a database as a copy of `template`; return its name."""
        name = f"test_{secrets.token_hex(6)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        """Drop a database and close the connections to it."""

        def is_dropped() -> bool:
            try:
                self._execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            except psycopg.errors.ObjectInUse:
                # The server gives the processes of closed connections five seconds to end.
                return False
            return True

        wait_until(is_dropped, what=f"the database {database} is dropped")

    def _execute(self, text: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(text)


class PostgresServer(Postgres):
    """A server that the tests start and stop, on a free port."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        *,
        copy_of: PostgresServer | None = None,
        autovacuum: bool = True,
    ) -> None:
        """Create and start a server in an empty folder, or a copy of another server.

        Args:
            autovacuum: Whether it may analyze tables by itself, in transactions of its own.
        """
        self.programs = programs
        self._data = folder / "data"
        self._log = folder / "log"
        self._as_owner: list[str] = []
        if os.geteuid() == 0:
            # The server refuses to run as root.
            owner = _find_unprivileged_user()
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            ids = [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}"]
            self._as_owner = ["setpriv", *ids, "--clear-groups", "--"]
        super().__init__(free_port())
        self._options = {
            **_OPTIONS,
            "autovacuum": "on" if autovacuum else "off",
            "port": str(self.port),
            "unix_socket_directories": str(folder),
        }
        if copy_of is None:
            access = ["-U", "postgres", "-A", "trust"]
            self._run("initdb", "-D", self._data, *access, "-E", "UTF8", "--no-sync")
        else:
            self._copy(copy_of)
        self.start()
        if copy_of is not None:
            # The server answers readers before its recovery has ended.
            wait_until(self._accepts_writes, what="the recovery has ended")

    def _copy(self, other: PostgresServer) -> None:
        """Copy the files of another server, and let the copy end its recovery with this state."""
        source = ["--host", "127.0.0.1", "--port", str(other.port), "--username", "postgres"]
        self._run("pg_basebackup", *source, "--pgdata", self._data, "--checkpoint", "fast")
        # The signal makes the start a recovery from an archive, which begins a new timeline.
        signal = self._data / "recovery.signal"
        signal.touch()
        shutil.chown(signal, self._data.owner(), self._data.group())
        self._options |= {
            "restore_command": "false",
            "recovery_target": "immediate",
            "recovery_target_action": "promote",
        }

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = " ".join(f"-c {name}={value}" for name, value in self._options.items())
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._log, "-o", options)

    def _accepts_writes(self) -> bool:
        with psycopg.connect(self.url()) as connection:
            row = connection.execute("SELECT NOT pg_is_in_recovery()").fetchone()
        return row is not None and bool(row[0])

    def stop(self) -> None:
        """Close all connections and end the server."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", "fast")

    def start_again(self) -> None:
        """Start the server if it is down."""
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            self.start()

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*self._as_owner, str(self.programs / program), *map(str, arguments)]
        # The server keeps inherited files open, so a pipe would never report its end.
        with tempfile.TemporaryFile() as output:
            run = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                check=False,
            )
            output.seek(0)
            assert run.returncode == 0, f"{' '.join(command)}: {output.read().decode()}"


def use_transaction_ids(url: str, *, beyond: str) -> None:
    """Let a server number more transactions than another server has numbered."""
    current = "SELECT pg_current_xact_id()::text::bigint"
    with psycopg.connect(url, autocommit=True) as server, psycopg.connect(beyond) as other:
        used = server.execute(current).fetchone()
        target = other.execute(current).fetchone()
        assert used is not None
        assert target is not None
        count = max(0, target[0] - used[0]) + 100_000
        server.execute(
            f"DO $$BEGIN FOR i IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT;"
            " END LOOP; END$$"
        )


def dump_and_restore(source_url: str, target_url: str) -> None:
    """Copy a database into an empty one of another server, as an operator would: by a dump."""
    programs = find_programs()
    with tempfile.NamedTemporaryFile(suffix=".sql") as dump:
        commands = [
            [programs / "pg_dump", "--dbname", source_url, "--no-owner", "--file", dump.name],
            [programs / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", target_url, "-f", dump.name],
        ]
        for command in commands:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)


@contextmanager
def running_server(*, copy_of: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """Start a server for the block; fail the test if none is installed.

    Args:
        copy_of: A server that is restored from its files, in its state at the moment.

    The server has no transactions but those of its callers: any other one would delay the events
    that readers see.
    """
    programs = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir="/tmp"))
    try:
        server = PostgresServer(programs, folder, copy_of=copy_of, autovacuum=False)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def start_server(folder: Path) -> Address:
    """Start a server that outlives this process; return the arguments of `Postgres`.

    Fail the test if no server is installed.
    """
    return {"port": PostgresServer(find_programs(), folder).port}


def find_programs() -> Path:
    """Return the folder of initdb and pg_ctl, which Debian installs outside of PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_parse_version, reverse=True)
    if shutil.which("pg_config"):
        config = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=True
        )
        folders.insert(0, Path(config.stdout.strip()))
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).parent)
    programs = next((folder for folder in folders if (folder / "initdb").exists()), None)
    if programs is None:
        pytest.fail(_NEEDED)
    return programs


def _parse_version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _find_unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
