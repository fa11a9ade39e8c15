"""The open store: transactions, wake-ups, and the lock that a SQLite file needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, make_url, select, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from headrace.errors import InvalidSetting
from headrace.store import migrate, postgres, sqlite
from headrace.store.listener import CHANNEL, Listener, NotifyCodec
from headrace.store.notifications import Notifications
from headrace.store.outages import as_outage
from headrace.store.writer_queue import WriterQueue

Dialect = Literal["sqlite", "postgresql"]

_WRITER_PATIENCE = 30.0
_NOTIFY = text("SELECT pg_notify(:channel, :payload)")


class Tx:
    """One transaction, or one reader's connection. Only the store's own modules look inside."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self.connection = connection
        self.dialect: Dialect = dialect
        self.topics: dict[str, None] = {}

    def execute(
        self, statement: Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> CursorResult[Any]:
        """Run one statement of SQLAlchemy's."""
        return self.connection.execute(statement, values or None)

    def wake(self, *topics: str) -> None:
        """Wake whoever waits for these, here and on other nodes, once this has committed."""
        self.topics.update(dict.fromkeys(topics))


class Database:
    """A store. Every method may be called from any thread.

    All raise StoreUnavailable when the database does not answer, and work again once it does.
    """

    def __init__(
        self,
        dialect: Dialect,
        readers: Engine,
        writers: Engine,
        *,
        lock: sqlite.FileLock | None = None,
        address: dict[str, Any] | None = None,
    ) -> None:
        self.dialect: Dialect = dialect
        self.notifications = Notifications()
        self._address = address
        self._readers = readers
        self._writers = writers
        self._lock = lock
        self._queue = WriterQueue()
        self._notify_codec = NotifyCodec()
        self._listener: Listener | None = None
        self._count_guard = threading.Lock()
        self._write_count = 0

    @classmethod
    def open(cls, url: str, *, pool_size: int = 10, connect_timeout: float = 5.0) -> Self:
        """Open `sqlite:///path` or `postgresql://…`; PostgreSQL is not connected to yet.

        Raises InvalidSetting, StoreInUse (a SQLite file that another node has open), or
        StoreUnavailable (one that cannot be made).
        """
        parsed = _parse(url)
        if parsed.drivername == "sqlite":
            path = sqlite.file_of(parsed)
            lock = sqlite.prepare(path)
            readers, writer = sqlite.engines(path, pool_size=pool_size, timeout=connect_timeout)
            return cls("sqlite", readers, writer, lock=lock)
        address = postgres.address(parsed, connect_timeout)
        readers, writers = postgres.engines(address, pool_size=pool_size, timeout=connect_timeout)
        return cls("postgresql", readers, writers, address=address)

    @property
    def write_count(self) -> int:
        """Write transactions so far."""
        return self._write_count

    def migrate(self) -> None:
        """Bring the schema to this version; several nodes may do so at once.

        Raises SchemaTooNew when a newer Headrace has migrated it.
        """
        with self._turn(), _outages_told(), self._writers.begin() as connection:
            migrate.upgrade(connection)

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """A connection that reads. Each statement sees what was committed when it began."""
        with _outages_told(), self._readers.connect() as connection:
            yield Tx(connection, self.dialect)

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """A transaction: committed at the end, or rolled back when the block raises."""
        with self._turn():
            with _outages_told(), self._writers.begin() as connection:
                tx = Tx(connection, self.dialect)
                yield tx
                if tx.topics and self.dialect == "postgresql":
                    for payload in self._notify_codec.payloads(tx.topics):
                        tx.execute(_NOTIFY, {"channel": CHANNEL, "payload": payload})
            with self._count_guard:
                self._write_count += 1
        self.notifications.publish(tx.topics)

    def ping(self) -> None:
        """Try the store. Raises StoreUnavailable."""
        if self._lock is not None:
            self._lock.verify()
        with self.read() as tx:
            tx.execute(select(1))

    def listen(self) -> None:
        """Take wake-ups of other nodes, from now until `close`. Nothing to do on SQLite."""
        if self._address is not None and self._listener is None:
            self._listener = Listener(self._address, self._notify_codec, self.notifications)

    def wait_until_listening(self, timeout: float) -> bool:
        """Whether wake-ups of other nodes arrive, within `timeout` seconds."""
        return self._listener is None or self._listener.wait_until_listening(timeout)

    def close(self) -> None:
        """Let go of everything. Harmless when repeated."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._readers.dispose()
        self._writers.dispose()
        if self._lock is not None:
            self._lock.release()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        with self._queue.turn(_WRITER_PATIENCE):
            self._lock.verify()
            yield


@contextmanager
def _outages_told() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        outage = as_outage(error)
        if outage is None:
            raise
        raise outage from error


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = URL.create("unknown")
    if parsed.drivername not in {"sqlite", "postgresql", "postgres", "postgresql+psycopg"}:
        raise InvalidSetting(
            f"The store {parsed.render_as_string()!r} is of no known kind: "
            "write sqlite:///path or postgresql://user@host/database."
        )
    return parsed
