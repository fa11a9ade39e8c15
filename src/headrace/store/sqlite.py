"""Connections to a SQLite store: one file, which belongs to one process with many threads."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from headrace.errors import InvalidSetting, StoreInUse, StoreUnavailable
from headrace.store.clock import CLOCK_FUNCTION, read_process_clock

_BUSY_MS = 5000


class FileLock:
    """An exclusive lock on `<file>.lock`, so that no other node opens the file.

    The operating system releases the lock when the process ends, however it ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._file = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StoreInUse(
                f"Process {holder} serves the store {path}. A SQLite file serves one node at a"
                " time.",
                hint="Stop that node with headrace stop in its home, choose another home with"
                " --home, or use a PostgreSQL store for several nodes.",
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def create_file(self) -> None:
        """Create the database file if it does not exist, readable for its owner only."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._inode = self._path.stat().st_ino

    def verify(self) -> None:
        """Raise StoreUnavailable if the file was removed or replaced.

        SQLite would continue to write to the removed file without an error.
        """
        try:
            same = self._path.stat().st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(f"The store {self._path} was removed while it was open.")

    def release(self) -> None:
        """Release the lock. A repeated call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def path_from_url(url: URL) -> Path:
    """Return the file of a `sqlite:///path` URL.

    Raises:
        InvalidSetting: The URL names no file.
    """
    if not url.database or url.database == ":memory:":
        raise InvalidSetting("A SQLite store needs a file. Write sqlite:///path/to/headrace.db.")
    return Path(url.database).absolute()


def prepare_file(path: Path) -> FileLock:
    """Create the file with its directories, and lock it.

    Raises:
        StoreInUse: Another process has the file open.
        StoreUnavailable: The file cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.create_file()
    except OSError as error:
        raise StoreUnavailable(f"The store {path} cannot be opened: {error.strerror}.") from error
    return lock


def create_engines(path: Path, *, pool_size: int, timeout: float) -> tuple[Engine, Engine]:
    """Return an engine for readers and one for the single writer."""
    readers = _create_engine(path, pool_size=pool_size, timeout=timeout)
    writer = _create_engine(path, pool_size=1, timeout=timeout)

    @event.listens_for(readers, "connect")
    def _set_read_only(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA query_only = ON")

    @event.listens_for(writer, "begin")
    def _begin_immediate(connection: Any) -> None:
        # A deferred transaction that reads first may fail to get the write lock later.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return readers, writer


def limit_lock_wait(connection: Connection, seconds: float) -> None:
    """Let the transaction that begins next wait at most so long for the lock of the file."""
    # SQLAlchemy would begin a transaction for the PRAGMA.
    cursor = connection.connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
    cursor.close()


def _create_engine(path: Path, *, pool_size: int, timeout: float) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # With isolation_level None, the sqlite3 module issues no BEGIN of its own.
        connect_args={"isolation_level": None, "check_same_thread": False},
        pool_size=pool_size,
        max_overflow=0,
        # Parameters contain the data of users, and errors are logged.
        hide_parameters=True,
        pool_timeout=timeout,
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.create_function(CLOCK_FUNCTION, 0, read_process_clock)
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    return engine
