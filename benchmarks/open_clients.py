"""What open clients cost: rates of one node beside event streams and drivers, and without them.

The clients are 200 event streams, which follow all events from now on, and 500 drivers. A driver
keeps a poll open and renews its lease every 5 s, as a real driver does. They run in a process of
their own, on plain sockets: clients of a library would take as much of the processors as the node.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.postgres import running_server

from benchmarks import load
from benchmarks.measure import MEDIAN_OF, Sample
from benchmarks.peers.headrace_node import MAX_WAITING, NodeClient, node_process
from benchmarks.postgres_node import TOKEN, insert_running_session
from headrace.driver.link import POLL_SECONDS
from headrace.model.messages import LINK_PREFIX, Message, Poll, Renew
from headrace.model.session import DriverLease
from headrace.store.database import Database

STREAMS = 200
DRIVERS = 500
_WINDOWS = 3
"""Windows of each kind while the clients stay open or closed."""
ROUNDS = MEDIAN_OF // _WINDOWS
_WARM_UP = 1
_QUIET_SECONDS, _QUIET_CORES = 60.0, 0.25
_RENEW_SECONDS = 5.0
_STATEMENTS = 16
_OK = b"HTTP/1.1 200 "


@dataclass
class Rates:
    """Requests per second of one kind, in the rounds without and with the open clients."""

    alone: Sample = field(default_factory=Sample)
    beside: Sample = field(default_factory=Sample)

    def add(self, rate: float, *, is_beside: bool) -> None:
        (self.beside if is_beside else self.alone).values.append(rate)

    @property
    def ratio(self) -> float:
        return self.beside.median / self.alone.median


@dataclass
class Outcome:
    """The rates of one node, and what its event streams received meanwhile."""

    reads: Rates = field(default_factory=Rates)
    submits: Rates = field(default_factory=Rates)
    bytes_per_second: float = 0.0

    def rates(self, kind: str) -> Rates:
        """Return the rates of `reads` or `submits`."""
        return {"reads": self.reads, "submits": self.submits}[kind]


def measure(folder: Path, store: str, *, rounds: int = ROUNDS) -> Outcome:
    """Measure status reads and submits of a node in rounds without and with open clients.

    Args:
        store: `sqlite` or `postgresql`.
    """
    outcome = Outcome()
    with _node(folder, store) as (node, leases), _clients(node, leases[1:]) as clients:
        # The driver of this session is not simulated, so that nothing claims what is submitted.
        session_id = leases[0].session_id
        ended = [_run_local_statement(node) for _ in range(_STATEMENTS)]
        for number in range(_WARM_UP + rounds):
            for is_beside in (False, True) if number % 2 else (True, False):
                with clients.open() if is_beside else nullcontext():
                    _wait_until_quiet(node)
                    for _window in range(_WINDOWS):
                        reads = load.read_window(node, folder, ended)
                        submits = load.submit_window(node, folder, session_id)
                        if number >= _WARM_UP:
                            outcome.reads.add(reads, is_beside=is_beside)
                            outcome.submits.add(submits, is_beside=is_beside)
        outcome.bytes_per_second = clients.received / clients.seconds
    return outcome


def _wait_until_quiet(node: NodeClient) -> None:
    """Wait until the node has opened or closed the connections of the clients."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while time.monotonic() < deadline:
        before = node.process.cpu_times()
        time.sleep(1.0)
        after = node.process.cpu_times()
        if after.user + after.system - before.user - before.system < _QUIET_CORES:
            return


@contextmanager
def _node(folder: Path, store: str) -> Iterator[tuple[NodeClient, list[DriverLease]]]:
    """Start a node on a store that already has the sessions of the drivers."""
    home = folder / store
    with _store_url(home, store) as url:
        database = Database.open(url)
        database.migrate()
        leases = [insert_running_session(database) for _ in range(1 + DRIVERS)]
        database.close()
        settings = {"HEADRACE_STORE__URL": url, "HEADRACE_CATALOG__KIND": "memory"}
        settings["HEADRACE_STATEMENTS__MAX_WAITING"] = str(MAX_WAITING)
        # The drivers do not renew in the rounds without them.
        settings["HEADRACE_LEASE__DURATION"] = "1h"
        with node_process(home, **settings) as (node, _process):
            yield node, leases


@contextmanager
def _store_url(home: Path, store: str) -> Iterator[str]:
    if store == "sqlite":
        home.mkdir(parents=True)
        yield f"sqlite:///{home / 'headrace.db'}"
        return
    with running_server() as server:
        yield server.url(server.new_database())


def _run_local_statement(node: NodeClient) -> str:
    """Run a statement that needs no driver, and return its id."""
    return str(node.call("POST", "/api/v1/statements", {"statement": "SHOW STREAMS"})["id"])


class _Clients:
    """The process of the open clients, as seen by the benchmark."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.received = 0
        """Bytes that the event streams have received while they were open."""
        self.seconds = 0.0
        """Time for which they were open."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open all streams and drivers for the length of the block."""
        self._pipe.send("open")
        self._expect("opened")
        yield
        self._pipe.send("close")
        received, seconds = self._expect("closed")
        self.received += received
        self.seconds += seconds

    def _expect(self, answer: str) -> tuple[int, float]:
        kind, *values = self._pipe.recv()
        if kind != answer:
            raise RuntimeError(f"the open clients failed: {values}")
        return (values[0], values[1]) if values else (0, 0.0)


@contextmanager
def _clients(node: NodeClient, leases: Sequence[DriverLease]) -> Iterator[_Clients]:
    spawn = multiprocessing.get_context("spawn")
    own, other = spawn.Pipe()
    arguments = (other, node.host, node.port, STREAMS, leases)
    process = spawn.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    try:
        yield _Clients(own)
    finally:
        own.send("end")
        process.join(10)
        process.terminate()


def _serve(
    pipe: Connection, host: str, port: int, count: int, leases: Sequence[DriverLease]
) -> None:
    asyncio.run(_follow_orders(pipe, host, port, count, leases))


async def _follow_orders(
    pipe: Connection, host: str, port: int, count: int, leases: Sequence[DriverLease]
) -> None:
    loop = asyncio.get_running_loop()
    while await asyncio.to_thread(pipe.recv) == "open":
        streams = [_Stream(host, port) for _ in range(count)]
        drivers = [
            driver
            for number, lease in enumerate(leases)
            for driver in _make_driver(host, port, lease, number / len(leases))
        ]
        connections: list[_Client] = [*streams, *drivers]
        try:
            for each in connections:
                await each.connect()
            await asyncio.wait_for(asyncio.gather(*(each.ready for each in connections)), 120)
        except Exception as error:  # noqa: BLE001 - the benchmark reports it
            pipe.send(("failed", repr(error)))
            return
        start, before = loop.time(), sum(stream.received for stream in streams)
        pipe.send(("opened",))
        await asyncio.to_thread(pipe.recv)
        received = sum(stream.received for stream in streams) - before
        failures = [each.failure for each in connections if each.failure]
        for each in connections:
            each.close()
        if failures:
            pipe.send(("failed", failures[0]))
            return
        pipe.send(("closed", received, loop.time() - start))


class _Client(asyncio.Protocol):
    """One connection to the node."""

    def __init__(self, host: str, port: int) -> None:
        self.failure = ""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.host = f"{host}:{port}"
        self._address = host, port
        self._transport: asyncio.Transport | None = None
        self._is_closed = False

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, *self._address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._is_closed:
            self.fail(f"the node closed a connection: {exc}")

    def fail(self, failure: str) -> None:
        self.failure = self.failure or failure
        if not self.ready.done():
            self.ready.set_exception(RuntimeError(failure))

    def become_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()


class _Stream(_Client):
    """A client that follows the events from now on."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.write(
            f"GET /api/v1/events?after=now HTTP/1.1\r\nHost: {self.host}\r\n"
            "Accept: text/event-stream\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        if not self.received and not data.startswith(_OK):
            self.fail(data[:500].decode(errors="replace"))
        self.received += len(data)
        self.become_ready()


class _Caller(_Client):
    """A connection of a driver, which sends one call after the other."""

    def __init__(
        self, host: str, port: int, lease: DriverLease, call: str, *, pause: float
    ) -> None:
        """Create it without a connection.

        Args:
            pause: Seconds between an answer and the next call.
        """
        super().__init__(host, port)
        self._head = (
            f"POST {LINK_PREFIX}/{lease.session_id}/{lease.epoch}/{call} HTTP/1.1\r\n"
            f"Host: {self.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._pause = pause
        self._first = self._later = b""
        self._after = 0.0
        self._buffer = b""
        self._timer: asyncio.TimerHandle | None = None

    def set_calls(self, first: Message, later: Message, *, after: float) -> None:
        """Set the calls: the first one after some seconds, and the later ones from then on."""
        self._first, self._later, self._after = self._encode(first), self._encode(later), after

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._after, self._send, self._first)
        self.become_ready()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not separator or len(body) < int(length):
            return
        if not head.startswith(_OK):
            self.fail(self._buffer[:500].decode(errors="replace"))
        self._buffer = b""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._pause, self._send, self._later)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def _send(self, call: bytes) -> None:
        if self._transport is not None:
            self._transport.write(call)

    def _encode(self, message: Message) -> bytes:
        body = message.model_dump_json()
        return f"{self._head}{len(body)}\r\n\r\n{body}".encode()


def _make_driver(host: str, port: int, lease: DriverLease, phase: float) -> list[_Caller]:
    """Return the two connections of a driver: one polls, one renews the lease.

    Args:
        phase: From 0 to 1. Real drivers have started at different times.
    """

    def make_poll(seconds: float) -> Poll:
        return Poll(
            wait_seconds=seconds,
            in_flight=[],
            cancels_received=[],
            streams_generation=0,
            announces_effects=True,
        )

    polls = _Caller(host, port, lease, "poll", pause=0.0)
    polls.set_calls(make_poll(max(1.0, phase * POLL_SECONDS)), make_poll(POLL_SECONDS), after=phase)
    renewals = _Caller(host, port, lease, "renew", pause=_RENEW_SECONDS)
    renewals.set_calls(Renew(), Renew(), after=phase * _RENEW_SECONDS)
    return [polls, renewals]
