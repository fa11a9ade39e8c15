"""A store in one SQLite file, which belongs to one process with many threads."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event

from headrace.errors import InvalidSetting, StoreInUse, StoreUnavailable
from headrace.store.clock import CLOCK_FUNCTION, microseconds

_BUSY_MS = 5000


class FileLock:
    """The proof that this process alone has the file: an exclusive lock on `<file>.lock`.

    The system drops it when the process ends, however it ends.
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
                f"Another node (process {holder}) has the store {path} open.",
                hint="One SQLite file serves one node; several nodes share a PostgreSQL store.",
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def make_file(self) -> None:
        """Make the database's file, if need be, readable for its owner alone."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._inode = self._path.stat().st_ino

    def verify(self) -> None:
        """Raises StoreUnavailable when the file is gone: SQLite would go on writing to nowhere."""
        try:
            same = self._path.stat().st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(f"The store {self._path} was removed while it was open.")

    def release(self) -> None:
        """Let others have the file. Harmless when repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def file_of(url: URL) -> Path:
    """The file that a `sqlite:///path` names. Raises InvalidSetting."""
    if not url.database or url.database == ":memory:":
        raise InvalidSetting("A SQLite store is a file: write sqlite:///path/to/headrace.db.")
    return Path(url.database).absolute()


def prepare(path: Path) -> FileLock:
    """Lock the file and make it, with its folders.

    Raises StoreInUse, or StoreUnavailable when it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.make_file()
    except OSError as error:
        raise StoreUnavailable(f"The store {path} cannot be opened: {error.strerror}.") from error
    return lock


def engines(path: Path, *, pool_size: int, timeout: float) -> tuple[Engine, Engine]:
    """An engine for readers and one for the writer whose turn it is."""
    readers = _engine(path, pool_size=pool_size, timeout=timeout)
    writer = _engine(path, pool_size=1, timeout=timeout)

    @event.listens_for(readers, "connect")
    def _read_only(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA query_only = ON")

    @event.listens_for(writer, "begin")
    def _begin(connection: Any) -> None:
        # Deferred transactions that read first fail to lock later (spark-facts.md, Store).
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return readers, writer


def _engine(path: Path, *, pool_size: int, timeout: float) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # Without an isolation level the module leaves BEGIN to us.
        connect_args={"isolation_level": None, "check_same_thread": False},
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout,
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.create_function(CLOCK_FUNCTION, 0, microseconds)
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    return engine
