"""The open store: connections, transactions, and wake-ups after a commit."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from uuid import uuid4

from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Engine,
    Executable,
    event,
    exc,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from headrace.config.extras import require_extra
from headrace.errors import InvalidSetting, StoreUnavailable
from headrace.model.statement import StatementEnd
from headrace.model.stream_query import StreamRunChange
from headrace.store import migrate, notifications, sqlite
from headrace.store.notifications import EVENTS, Notifications
from headrace.text.readable import describe_duration

if TYPE_CHECKING:
    from headrace.store.postgres import Listener


_LONGEST_SERIES = 8
"""Number of turns of earlier classes in succession after which a waiting writer has its turn."""


class Precedence(IntEnum):
    """The classes of writers, in the order in which they are served."""

    LEASES = 0
    """Renewals. A late renewal costs a driver its session, or a node its drivers."""
    REPORTS = 1
    """What drivers report about statements. An end makes a place free for another statement."""
    OTHERS = 2
    """Submits and all other changes."""


class WriterQueue:
    """Turns to write. A free turn goes to the first class that has a waiting writer.

    Within a class, it goes to the writer that has waited longest. No class starves: while a writer
    of a later class waits, those of earlier classes have at most `_LONGEST_SERIES` turns.
    """

    def __init__(self, *, turns: int = 1, reserved: int = 0) -> None:
        """Create it with free turns.

        Args:
            turns: Largest number of writers at once.
            reserved: Turns that the class OTHERS leaves free. REPORTS leaves half of them free.
        """
        self._guard = threading.Lock()
        self._free = turns
        self._needed = dict.fromkeys(Precedence, 1) | {Precedence.OTHERS: 1 + reserved}
        """Number of free turns that each class needs to get one."""
        self._gates: dict[Precedence, deque[threading.Lock]] = {
            each: deque() for each in Precedence
        }
        """One locked gate for each waiting writer. The writer that frees a turn releases a gate."""
        self._passed = dict.fromkeys(Precedence, 0)
        """Turns that earlier classes have had while each class waited."""
        self._is_exclusive = turns == 1
        self._holder: int | None = None

    @property
    def waiting(self) -> int:
        """Number of writers that wait."""
        return sum(map(len, self._gates.values()))

    @contextmanager
    def turn(self, seconds: float, precedence: Precedence = Precedence.OTHERS) -> Iterator[float]:
        """Hold a turn for the length of the block, and yield the rest of the seconds.

        Raises:
            StoreUnavailable: No turn was free within `seconds`.
            RuntimeError: The calling thread holds the only turn already.
        """
        if self._is_exclusive and self._holder == threading.get_ident():
            raise RuntimeError("a write transaction inside another one would wait for itself")
        remaining = self._acquire(seconds, precedence)
        self._holder = threading.get_ident()
        try:
            yield remaining
        finally:
            self._holder = None
            self._release()

    def _acquire(self, seconds: float, precedence: Precedence) -> float:
        with self._guard:
            if self._free >= self._needed[precedence] and not self._gates[precedence]:
                self._free -= 1
                return seconds
            gate = threading.Lock()
            gate.acquire()
            self._gates[precedence].append(gate)
        start = time.monotonic()
        if not gate.acquire(timeout=seconds):
            with self._guard:
                if gate in self._gates[precedence]:
                    self._gates[precedence].remove(gate)
                    raise StoreUnavailable(
                        f"The store is locked or overloaded: no turn to write came within"
                        f" {describe_duration(seconds)}."
                    )
            # The turn came just after the time was over: this thread holds it.
        return max(seconds - (time.monotonic() - start), 0.0)

    def _release(self) -> None:
        with self._guard:
            self._free += 1
            ready = [
                each
                for each in Precedence
                if self._gates[each] and self._free >= self._needed[each]
            ]
            if not ready:
                return
            late = [each for each in ready if self._passed[each] >= _LONGEST_SERIES]
            chosen = (late or ready)[0]
            for each in ready:
                self._passed[each] = 0 if each is chosen else self._passed[each] + 1
            self._free -= 1
            self._gates[chosen].popleft().release()


# SQLITE_ERROR is a mistake in the SQL. Every other operational error of SQLite (busy, full, I/O
# error, cannot open, corrupt, read-only) concerns the file or the disk.
_SQL_MISTAKE = sqlite3.SQLITE_ERROR

# https://www.postgresql.org/docs/current/errcodes-appendix.html: connection, a read-only server (a
# standby), a rollback that other transactions forced (a deadlock), resources, a lock timeout, an
# operator's intervention, a system error.
_POSTGRESQL_CLASSES = ("08", "25006", "40", "53", "55P03", "57", "58")

_LOST_CONNECTION = {"OperationalError", "InterfaceError"}


def to_outage(error: Exception) -> StoreUnavailable | None:
    """Return the StoreUnavailable for an error, or None if the error is not an outage."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable("The store has no free connection: it is slow or overloaded.")
    if not isinstance(error, exc.DBAPIError):
        return None
    if error.connection_invalidated or _is_outage(error.orig):
        return StoreUnavailable(f"The store does not answer: {_first_line(error.orig)}")
    return None


def _is_outage(cause: BaseException | None) -> bool:
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return (
            isinstance(cause, sqlite3.DatabaseError)
            and not isinstance(cause, sqlite3.IntegrityError | sqlite3.ProgrammingError)
            and code is not None
            and code != _SQL_MISTAKE
        )
    # psycopg reports a lost connection without a SQLSTATE.
    state = getattr(cause, "sqlstate", None)
    if state is None:
        # Some have a class of their own, such as ConnectionTimeout.
        return not _LOST_CONNECTION.isdisjoint(each.__name__ for each in type(cause).__mro__)
    return str(state).startswith(_POSTGRESQL_CLASSES)


def _first_line(cause: BaseException | None) -> str:
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__


Dialect = Literal["sqlite", "postgresql"]

_LOG = logging.getLogger("headrace.store")
_LOCK_FOR_WRITES = text("LOCK TABLE sessions, statements, events IN ROW EXCLUSIVE MODE")
"""Takes the locks of a submit, on PostgreSQL."""
_RESERVED = 2
"""Connections that submits leave free: one for renewals, and one for renewals and reports."""
_MIGRATION_SECONDS = 30.0
"""Time that a node waits for another one that migrates the store."""
_LONG_WAIT = 0.9
"""Part of the time of a write below which the wait for its turn counts."""


ObserveStreamRun: TypeAlias = "Callable[[Tx, StreamRunChange], None]"
"""Takes the transaction that stores a step of a run of a streaming query, and the step."""


def _ignore_stream_run(_tx: Tx, _change: StreamRunChange) -> None:
    """Ignore a step of a run: no observer is set."""


class Tx:
    """A write transaction, or a connection for reads. Only modules of the store use its members."""

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        observe_stream_run: ObserveStreamRun = _ignore_stream_run,
    ) -> None:
        self.connection = connection
        self.dialect: Dialect = dialect
        self._observe_stream_run = observe_stream_run
        self.topics: dict[str, None] = {}
        self.waiters: dict[str, str | None] = {}
        self.ends: list[StatementEnd] = []
        """Statements that the transaction has ended."""
        self._end_callbacks: list[Callable[[bool], None]] = []

    def execute(
        self, statement: Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> CursorResult[Any]:
        """Execute an SQLAlchemy statement."""
        return self.connection.execute(statement, values or None)

    def wake(self, *topics: str) -> None:
        """Wake the subscribers of these topics in every process after the commit."""
        self.topics.update(dict.fromkeys(topics))

    def note_stream_run(self, change: StreamRunChange) -> None:
        """Pass a step of a run of a streaming query to the observer, within this transaction."""
        self._observe_stream_run(self, change)

    def on_end(self, callback: Callable[[bool], None]) -> None:
        """Call back after the transaction, and before its wake-ups: True if it is committed."""
        self._end_callbacks.append(callback)

    def call_back(self, *, is_committed: bool) -> None:
        """Call the callbacks. An error of one must not hide the outcome of the transaction."""
        for callback in self._end_callbacks:
            try:
                callback(is_committed)
            except Exception:  # noqa: BLE001 - as above
                _LOG.exception("A callback after the end of a transaction failed.")

    def note_waiter(self, topic: str, process: str | None) -> None:
        """Note which process waits for a topic, so that it need not be read; None: not known.

        The transaction must have locked the row that says so.
        """
        self.waiters[topic] = process


class Database:
    """A store. Any thread may call any method.

    Every method raises StoreUnavailable while the database does not answer, and works again when
    the database is back.
    """

    def __init__(
        self,
        dialect: Dialect,
        readers: Engine,
        writers: Engine,
        *,
        queue: WriterQueue,
        write_seconds: float,
        lock: sqlite.FileLock | None = None,
        address: dict[str, Any] | None = None,
    ) -> None:
        self.dialect: Dialect = dialect
        self.notifications = Notifications()
        self._address = address
        self._readers = readers
        self._writers = writers
        self._lock = lock
        self._queue = queue
        self._write_seconds = write_seconds
        """Longest time that a write transaction waits for its turn and for locks."""
        self.process = uuid4().hex
        """Identity of this process among those that share the store."""
        self.observe_ends: Callable[[Sequence[StatementEnd]], None] = lambda _ends: None
        """Called after the commit with the statements that a transaction has ended."""
        self.observe_stream_run: ObserveStreamRun = _ignore_stream_run
        """Called in the transaction that stores a step of a run of a streaming query."""
        self.others_stream_events = True
        """Whether other processes need a wake-up for each event."""
        self._listener: Listener | None = None
        self._count_guard = threading.Lock()
        self._write_counts: Counter[str] = Counter()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        pool_size: int = 10,
        connect_timeout: float = 5.0,
        only_reads: bool = False,
    ) -> Self:
        """Open `sqlite:///path` or `postgresql://…`. A PostgreSQL server is not contacted yet.

        Args:
            only_reads: Open an existing SQLite file even if a node serves it, for `read` alone.

        Raises:
            InvalidSetting: The URL is not valid.
            StoreInUse: Another node has the SQLite file open.
            StoreUnavailable: The SQLite file cannot be created.
            PackagesMissing: The extra `postgres` is not installed.
        """
        parsed = _parse(url)
        if parsed.drivername == "sqlite":
            path = sqlite.path_from_url(parsed)
            lock = None if only_reads else sqlite.prepare_file(path)
            readers, writer = sqlite.create_engines(
                path, pool_size=pool_size, timeout=connect_timeout
            )
            return cls(
                "sqlite",
                readers,
                writer,
                queue=WriterQueue(),
                write_seconds=connect_timeout,
                lock=lock,
            )
        # A node on SQLite does not need the driver of PostgreSQL.
        require_extra("postgres", "A store in PostgreSQL")
        from headrace.store import postgres  # noqa: PLC0415

        address = postgres.connect_arguments(parsed, connect_timeout)
        readers, writers = postgres.create_engines(
            address, pool_size=pool_size, timeout=connect_timeout
        )
        return cls(
            "postgresql",
            readers,
            writers,
            queue=WriterQueue(
                turns=pool_size, reserved=_RESERVED if pool_size > 2 * _RESERVED else 0
            ),
            write_seconds=connect_timeout,
            address=address,
        )

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use the store."""
        return self.dialect == "postgresql"

    @property
    def write_count(self) -> int:
        """Number of write transactions that this process has committed."""
        with self._count_guard:
            return self._write_counts.total()

    @property
    def write_counts(self) -> dict[str, int]:
        """Number of write transactions that this process has committed, by name."""
        with self._count_guard:
            return dict(self._write_counts)

    def migrate(self) -> None:
        """Upgrade the schema to this version. Several nodes may do so at once.

        On a restored PostgreSQL store, also start a new generation of events.

        Raises:
            SchemaTooNew: A newer Headrace has migrated the store.
        """
        with self._begin(Precedence.OTHERS, _MIGRATION_SECONDS) as connection:
            is_own_schema = migrate.upgrade(connection)
            if is_own_schema and self.dialect == "sqlite":
                migrate.create_late_indexes(connection)
            migrate.start_generation_if_restored(connection)
        if is_own_schema and self.dialect == "postgresql":
            with _convert_outages(), self._readers.connect() as connection:
                migrate.create_indexes_concurrently(connection)

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """Open a connection for reads. Each query sees what was committed when the query began."""
        with _convert_outages(), self._readers.connect() as connection:
            yield Tx(connection, self.dialect)

    @contextmanager
    def write(self, name: str, *, precedence: Precedence = Precedence.OTHERS) -> Iterator[Tx]:
        """Open a transaction. The end of the block commits it; an exception rolls it back.

        It waits at most `connect_timeout` for its turn and for the lock of the store together.

        Args:
            name: Stable name of the transaction's purpose, for example `statement.submit`. Metrics
                and fault injection use it.
            precedence: Which other writers it lets go first.
        """
        tx, is_committed = None, False
        try:
            with self._begin(precedence) as connection:
                tx = Tx(connection, self.dialect, self.observe_stream_run)
                yield tx
                if tx.topics and self.is_shared:
                    self._send_wake_ups(tx)
            is_committed = True
            with self._count_guard:
                self._write_counts[name] += 1
        finally:
            if tx is not None:
                tx.call_back(is_committed=is_committed)
        self.notifications.publish(tx.topics)
        if tx.ends:
            self.observe_ends(tx.ends)

    def _send_wake_ups(self, tx: Tx) -> None:
        if not self.others_stream_events:
            tx.note_waiter(EVENTS, notifications.NO_PROCESS)
        polled = self.notifications.find_subscribed(tx.topics)
        notifications.send_wake_ups(
            tx.connection, self.process, tx.topics, tx.waiters, polled=polled
        )

    def ping(self) -> None:
        """Raise StoreUnavailable if the store does not answer."""
        if self._lock is not None:
            self._lock.verify()
        with self.read() as tx:
            tx.execute(select(1))

    def check_writable(self) -> None:
        """Raise StoreUnavailable if no write can begin within the time that a write waits."""
        # Among the submits, which it stands for. It must not take the turn of a renewal.
        with self._begin(Precedence.OTHERS) as connection:
            if self.is_shared:
                connection.execute(_LOCK_FOR_WRITES)

    def listen(self) -> None:
        """Receive the wake-ups of other nodes until `close`. A SQLite store has no other nodes."""
        if self._address is not None and self._listener is None:
            from headrace.store.postgres import Listener  # noqa: PLC0415 - as in `open`

            self._listener = Listener(self._address, self.process, self.notifications)

    def wait_until_listening(self, timeout: float) -> bool:
        """Wait until wake-ups of other nodes arrive. Return False after `timeout` seconds."""
        return self._listener is None or self._listener.wait_until_listening(timeout)

    def hears_wake_ups(self, within: float) -> bool:
        """Return whether wake-ups of other nodes have arrived within the last `within` seconds.

        True for a SQLite store, which has no other nodes. Nodes send a wake-up when they renew
        their leases, so that silence means a broken connection.
        """
        if not self.is_shared:
            return True
        return self._listener is not None and self._listener.has_heard(within)

    def close(self) -> None:
        """Close all connections and release the SQLite file. A repeated call does nothing."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for engine in (self._readers, self._writers):
            # A thread may still use a connection, which then returns to the disposed pool.
            event.listen(engine.pool, "checkin", _close_connection)
            engine.dispose()
        if self._lock is not None:
            self._lock.release()

    @contextmanager
    def _begin(self, precedence: Precedence, seconds: float | None = None) -> Iterator[Connection]:
        """Open a transaction when it is the turn of this writer.

        Args:
            seconds: Longest time to wait for the turn and for each lock; default: that of a write.
        """
        limit = self._write_seconds if seconds is None else seconds
        with self._queue.turn(limit, precedence) as remaining:
            if self._lock is not None:
                self._lock.verify()
            with _convert_outages(), self._writers.connect() as connection:
                if not self.is_shared:
                    sqlite.limit_lock_wait(connection, remaining)
                with connection.begin():
                    usual = self._write_seconds
                    if self.is_shared and not _LONG_WAIT * usual <= remaining <= usual:
                        # Otherwise the limit of the connection applies, without a round trip.
                        milliseconds = max(1, int(remaining * 1000))
                        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {milliseconds}")
                    yield connection


@contextmanager
def _convert_outages() -> Iterator[None]:
    """Raise StoreUnavailable for a database error that means an outage."""
    try:
        yield
    except SQLAlchemyError as error:
        outage = to_outage(error)
        if outage is None:
            raise
        raise outage from error


def _close_connection(connection: Any, _record: Any) -> None:
    if connection is not None:
        connection.close()


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = URL.create("unknown")
    if parsed.drivername not in {"sqlite", "postgresql", "postgres", "postgresql+psycopg"}:
        raise InvalidSetting(
            f"{parsed.render_as_string()!r} is not the URL of a store. "
            "Write sqlite:///path or postgresql://user@host/database."
        )
    return parsed
