"""Where one PostgreSQL saturates: nodes, drivers and statements per second, without Spark.

Each node is a process that makes the store transactions of a node: submit, poll, start and end of
statements, and the renewals of drivers. HTTP and Spark are left out, because they cost PostgreSQL
nothing. The processes share the cores of the machine with PostgreSQL, so they end before it does.
The processor time of PostgreSQL for a statement tells how many statements per second a server with
more cores can take. Loads on a PostgreSQL that may use a part of a core only show what happens
there.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import psycopg
from tests.support.in_process_node import make_settings
from tests.support.made_results import inline_result
from tests.support.postgres import running_server
from tests.support.scripted_driver import ScriptedLauncher

from benchmarks.core_limit import can_limit_cores, core_limit
from benchmarks.postgres_node import insert_running_session
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Ended, Poll, Renew, Started
from headrace.model.session import DriverLease
from headrace.model.statement import StatementSpec
from headrace.store.database import Database

_WARM_UP_SECONDS, _SECONDS = 3.0, 15.0
_THREADS = 4
"""Statements that a node handles at the same time."""
_RENEWAL_SECONDS = 5.0
_CALLER = Caller("anonymous")
_SPEC = StatementSpec(text="SELECT 1")
_RESULT = inline_result([("x", "integer")], [[1]])
_TOTALS = (
    "SELECT pg_current_wal_lsn() - '0/0', xact_commit FROM pg_stat_database WHERE datname = %s"
)


@dataclass(frozen=True)
class Load:
    """A load on the store."""

    nodes: int
    drivers: int
    rate: float | None
    """Statements per second that all nodes begin together; None: as many as they can."""
    cores: float | None = None
    """Cores that PostgreSQL may use; None: all. A limit needs root."""


LOADS = [
    Load(1, 100, 0),
    Load(1, 1000, 0),
    Load(4, 1000, 0),
    Load(1, 100, 50),
    Load(2, 100, 50),
    Load(4, 100, 50),
    Load(1, 100, None),
    Load(2, 100, None),
    Load(4, 100, None),
    Load(4, 1000, None),
    Load(2, 100, 10, 0.25),
    Load(2, 100, 20, 0.25),
    Load(2, 100, 40, 0.25),
    Load(2, 100, None, 0.25),
    Load(2, 100, None, 0.125),
]
"""The last ones limit the cores."""


def possible_loads() -> list[Load]:
    """Return the loads that this machine permits."""
    return [load for load in LOADS if load.cores is None or can_limit_cores()]


@dataclass(frozen=True)
class Outcome:
    """What a load did to the store."""

    rate: float
    """Statements that ended per second."""
    latencies: Sequence[float]
    """Seconds of the four transactions and one poll of each statement."""
    cores: float
    """Cores that PostgreSQL kept busy."""
    commits: float
    """Transactions per second that PostgreSQL counts, with reads."""
    wal_bytes: float
    """Bytes of the write-ahead log per second."""

    @property
    def median(self) -> float:
        return statistics.median(self.latencies)

    @property
    def slow(self) -> float:
        """The 95th percentile of the latencies."""
        return statistics.quantiles(self.latencies, n=20)[-1]

    def describe(self) -> list[str]:
        """Return rate, latencies in ms, cores, core ms for a statement, MB of log per second."""
        cores, log = f"{self.cores:.2f}", f"{self.wal_bytes / 1e6:.2f}"
        if not self.latencies:
            return ["0", "", "", cores, "", log]
        latencies = [f"{seconds * 1000:.1f}" for seconds in (self.median, self.slow)]
        return [f"{self.rate:.0f}", *latencies, cores, f"{self.cores / self.rate * 1000:.2f}", log]


def simulate(folder: Path, load: Load) -> Outcome:
    """Run nodes under a load on a new server with flushes of the disk, and measure the server."""
    with core_limit(load.cores) as limit, running_server() as server:
        url = server.url(server.new_database())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = on")
            connection.execute("SELECT pg_reload_conf()")
        database = Database.open(url)
        database.migrate()
        leases = [insert_running_session(database) for _number in range(load.drivers)]
        database.close()
        if limit is not None:
            limit.add(_find_postmaster(url))
        with _running_nodes(folder, url, load, leases) as nodes:
            time.sleep(_WARM_UP_SECONDS)
            for node in nodes:
                node.send("measure")
            before, start = _read_totals(url), time.monotonic()
            time.sleep(_SECONDS)
            after, seconds = _read_totals(url), time.monotonic() - start
            latencies: list[float] = []
            for node in nodes:
                node.send("end")
                latencies += node.recv()
    cpu, wal, commits = ((new - old) / seconds for old, new in zip(before, after, strict=True))
    return Outcome(len(latencies) / seconds, latencies, cpu, commits, wal)


def _read_totals(url: str) -> tuple[float, float, float]:
    """Return the processor seconds, the bytes of the log and the transactions of the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_TOTALS, (connection.info.dbname,)).fetchone()
    assert row is not None
    postmaster = _find_postmaster(url)
    own = postmaster.cpu_times()
    seconds = own.user + own.system + own.children_user + own.children_system
    for child in postmaster.children():
        # The time of a process that ends meanwhile is added to that of its parent.
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            seconds += times.user + times.system
    return seconds, float(row[0]), float(row[1])


def _find_postmaster(url: str) -> psutil.Process:
    with psycopg.connect(url, autocommit=True) as connection:
        postmaster = psutil.Process(connection.info.backend_pid).parent()
    assert postmaster is not None
    return postmaster


@contextmanager
def _running_nodes(
    folder: Path, url: str, load: Load, leases: Sequence[DriverLease]
) -> Iterator[list[Connection]]:
    """Start the nodes in processes of their own, and yield the pipe of each when all are ready."""
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(load.nodes):
        own, other = spawn.Pipe()
        rate = None if load.rate is None else load.rate / load.nodes
        home = folder / f"node-{number}"
        arguments = (other, home, url, leases[number :: load.nodes], rate)
        # A node must not outlive a benchmark that fails.
        processes.append(spawn.Process(target=_run_node, args=arguments, daemon=True))
        pipes.append(own)
    for process in processes:
        process.start()
    for pipe in pipes:
        pipe.recv()
    yield pipes
    for process in processes:
        process.join()


def _run_node(
    pipe: Connection, home: Path, url: str, leases: Sequence[DriverLease], rate: float | None
) -> None:
    settings = make_settings(home, store={"url": url})
    node = Node(
        settings, address=f"http://{home.name}", embedded=False, launchers=[ScriptedLauncher()]
    )
    node.start(request_stop=lambda: None)
    ended, latencies = threading.Event(), list[float]()
    workers = [lambda: _renew(node, leases, ended)]
    if rate != 0:
        pause = 0.0 if rate is None else _THREADS / rate
        workers += [
            lambda number=number: _run_statements(
                node, leases[number::_THREADS], pause, ended, latencies
            )
            for number in range(_THREADS)
        ]
    with ThreadPoolExecutor(len(workers)) as pool:
        running = [pool.submit(worker) for worker in workers]
        pipe.send("ready")
        pipe.recv()
        latencies.clear()
        pipe.recv()
        pipe.send(list(latencies))
        ended.set()
        for each in running:
            each.result()
    node.stop()


def _run_statements(
    node: Node,
    leases: Sequence[DriverLease],
    pause: float,
    ended: threading.Event,
    latencies: list[float],
) -> None:
    """Run statements in one session after the other, one every `pause` seconds."""
    due = time.monotonic()
    for lease in itertools.cycle(leases):
        due = max(time.monotonic(), due + pause)
        if ended.wait(due - time.monotonic()):
            return
        start = time.monotonic()
        statement_id = node.statements.submit(_CALLER, _SPEC, session=lease.session_id).id
        poll = Poll(wait_seconds=0, in_flight=[], cancels_received=[])
        assignment = node.driver_link.poll(lease, poll).orders.assignment
        assert assignment is not None
        assert assignment.statement_id == statement_id
        node.driver_link.started(lease, Started(statement_id=statement_id))
        report = Ended(statement_id=statement_id, state=StatementState.SUCCESS, result=_RESULT)
        assert node.driver_link.ended(lease, report).applied
        latencies.append(time.monotonic() - start)


def _renew(node: Node, leases: Sequence[DriverLease], ended: threading.Event) -> None:
    """Renew the lease of each driver every five seconds."""
    due = time.monotonic()
    for lease in itertools.cycle(leases):
        due = max(time.monotonic() - 1.0, due + _RENEWAL_SECONDS / len(leases))
        if ended.wait(max(0.0, due - time.monotonic())):
            return
        assert node.driver_link.renewals.renew(lease, Renew()).applied
