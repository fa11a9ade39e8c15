"""The faults of a run: their order from the seed, and how each is caused and healed.

At most two of the three nodes suffer from a fault at the same time, so the load can continue.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import psutil
from tests.faults.chaos_cluster.host_cluster import NODES, ClusterNode, HostCluster
from tests.faults.cluster import LEASE_SECONDS, DriverProcess

_PAUSE_SECONDS = (4.0, 10.0)
"""Time between the begins of two faults."""
_START_SECONDS = 4.0
"""A driver needs more time than this until its hello."""
_NEW_START_SECONDS = 40.0
"""Time in which a lost driver is launched again, if its session has work."""
_LONGEST_REPEAT = 2
"""Starts of one session that a fault kills in a row. Three failed starts end a session."""


class FaultKind(StrEnum):
    """What happens to a process, a driver or a host."""

    NODE_KILLED = "SIGKILL of a node"
    NODE_FROZEN_BRIEFLY = "freeze of a node, shorter than a lease"
    NODE_FROZEN = "freeze of a node, longer than a lease"
    DRIVER_KILLED = "SIGKILL of the Python process of a driver"
    JVM_KILLED = "SIGKILL of the JVM of a driver"
    DRIVER_FROZEN = "freeze of a driver, longer than a lease"
    START_KILLED = "SIGKILL of a driver that starts"
    START_KILLED_WITH_NODE = "SIGKILL of a driver that starts, with its node"
    STARTING_JVM_KILLED = "SIGKILL of the JVM of a driver that starts"
    HOST_KILLED = "end of a host"
    HOST_CUT_BRIEFLY = "cut of a host from the network, shorter than a lease"
    HOST_CUT = "cut of a host from the network, longer than a lease"


_SECONDS: dict[FaultKind, tuple[float, float]] = {
    FaultKind.NODE_KILLED: (0.0, 2 * LEASE_SECONDS),
    FaultKind.NODE_FROZEN_BRIEFLY: (0.3 * LEASE_SECONDS, 0.9 * LEASE_SECONDS),
    FaultKind.NODE_FROZEN: (1.2 * LEASE_SECONDS, 3 * LEASE_SECONDS),
    FaultKind.DRIVER_KILLED: (0.0, 0.0),
    FaultKind.JVM_KILLED: (0.0, 0.0),
    FaultKind.DRIVER_FROZEN: (1.2 * LEASE_SECONDS, 2 * LEASE_SECONDS),
    FaultKind.START_KILLED: (0.0, _START_SECONDS),
    FaultKind.START_KILLED_WITH_NODE: (0.0, _START_SECONDS),
    FaultKind.STARTING_JVM_KILLED: (0.0, _START_SECONDS),
    FaultKind.HOST_KILLED: (0.0, 3 * LEASE_SECONDS),
    FaultKind.HOST_CUT_BRIEFLY: (0.3 * LEASE_SECONDS, 0.9 * LEASE_SECONDS),
    FaultKind.HOST_CUT: (1.2 * LEASE_SECONDS, 5 * LEASE_SECONDS),
}
"""How long each fault lasts, before the restart of what it has ended.

A start is killed after this time.
"""
_IN_DRIVERS = {FaultKind.DRIVER_KILLED, FaultKind.JVM_KILLED, FaultKind.DRIVER_FROZEN}
_IN_STARTS = {
    FaultKind.START_KILLED,
    FaultKind.START_KILLED_WITH_NODE,
    FaultKind.STARTING_JVM_KILLED,
}


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that the seed determines."""

    kind: FaultKind
    pause: float
    """Seconds after the begin of the fault before."""
    seconds: float
    choice: float
    """Chooses the node or driver: from 0, less than 1."""
    repeats: int
    """How many starts of a session are killed in a row."""


def plan_faults(seed: str) -> Iterator[PlannedFault]:
    """Yield the faults of a seed, without end. Every kind happens once before any is repeated."""
    chance = random.Random(seed)
    while True:
        for kind in chance.sample(list(FaultKind), len(FaultKind)):
            yield PlannedFault(
                kind,
                pause=chance.uniform(*_PAUSE_SECONDS),
                seconds=chance.uniform(*_SECONDS[kind]),
                choice=chance.random(),
                repeats=chance.randint(1, _LONGEST_REPEAT),
            )


class FaultyNodes:
    """The numbers of the nodes that suffer from a fault: never all at the same time."""

    def __init__(self, count: int = NODES) -> None:
        self._count = count
        self._faulty: set[int] = set()
        self._changed = threading.Condition()

    def add(self, number: int, *, seconds: float) -> bool:
        """Add a node as soon as it has no fault and another node remains healthy.

        Return False if this does not happen within some seconds.
        """
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: number not in self._faulty and len(self._faulty) < self._count - 1,
                timeout=seconds,
            )
            if is_free:
                self._faulty.add(number)
            return is_free

    def remove(self, number: int) -> None:
        """Remove a node that is healthy again."""
        with self._changed:
            self._faulty.remove(number)
            self._changed.notify_all()


class FaultInjector:
    """Causes the faults of a seed, one after another, until it is stopped. Faults overlap."""

    def __init__(self, cluster: HostCluster, seed: str) -> None:
        self._cluster = cluster
        self._plan = plan_faults(seed)
        self._begin = time.monotonic()
        self._stopping = threading.Event()
        self._faulty = FaultyNodes()
        self._faults: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.counts: Counter[FaultKind] = Counter()
        self.failed_starts: Counter[str] = Counter()
        """For each session, the number of faults that may have ended a start of its driver."""
        self.errors: list[str] = []
        """Nodes that could not be healed."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin no further fault, and wait until every node and host is healed."""
        self._stopping.set()
        for thread in [self._thread, *self._faults]:
            thread.join()

    def _run(self) -> None:
        for fault in self._plan:
            if self._stopping.wait(fault.pause):
                return
            if fault.kind in _IN_STARTS:
                self._start_thread(partial(self._kill_starts, fault))
            elif fault.kind in _IN_DRIVERS:
                self._harm_driver(fault)
            else:
                self._harm_node(fault)

    def _harm_driver(self, fault: PlannedFault) -> None:
        drivers = self._cluster.find_drivers()
        spared = self._cluster.list_last_starts()
        sessions = sorted({driver.session for driver in drivers} - spared)
        if not sessions:
            return
        session = sessions[int(fault.choice * len(sessions))]
        processes = [driver for driver in drivers if driver.session == session]
        self.failed_starts.update({session} & self._cluster.list_starting())
        self._report(fault, f"driver of {session}")
        self._start_thread(lambda: _harm_processes(fault, processes))

    def _kill_starts(self, fault: PlannedFault) -> None:
        """Kill a driver before its hello, and perhaps the next driver of its session, too."""
        session = self._choose_start(fault)
        for _ in range(fault.repeats):
            drivers = self._wait_for_start(session)
            # The time is that of the start, not of a condition.
            if not drivers or self._stopping.wait(fault.seconds):
                return
            # The processes of the start: the JVM is younger than the Python process.
            drivers = self._cluster.find_starts().get(session, [])
            if self._cluster.list_last_starts():
                return
            node = self._cluster.node_of(drivers[0]) if drivers else None
            if node is None:
                continue
            if fault.kind is not FaultKind.START_KILLED_WITH_NODE:
                self._report(fault, f"driver of {session}")
                self.failed_starts[session] += 1
                _harm_processes(fault, drivers)
            elif self._faulty.add(node.number, seconds=0.0):
                self._report(fault, f"driver of {session}, node {node.number}")
                self.failed_starts.update({session, *self._cluster.list_starting()})
                node.process.kill()
                _harm_processes(fault, drivers)
                node.wait_ready()
                self._faulty.remove(node.number)

    def _choose_start(self, fault: PlannedFault) -> str:
        """Return a session whose driver starts. If there is none, kill a driver that runs."""
        spared = self._cluster.list_last_starts()
        starts = sorted(self._cluster.find_starts().keys() - spared)
        if starts:
            return starts[int(fault.choice * len(starts))]
        drivers = self._cluster.find_drivers()
        sessions = sorted({driver.session for driver in drivers} - spared)
        if not sessions:
            return ""
        session = sessions[int(fault.choice * len(sessions))]
        _signal([each.process for each in drivers if each.session == session], signal.SIGKILL)
        return session

    def _wait_for_start(self, session: str) -> list[DriverProcess]:
        """Return the processes of the next start in a session; none if it has no work."""
        end = time.monotonic() + _NEW_START_SECONDS
        while time.monotonic() < end and not self._stopping.wait(0.2):
            if drivers := self._cluster.find_starts().get(session):
                return drivers
        return []

    def _harm_node(self, fault: PlannedFault) -> None:
        node = self._cluster.nodes[int(fault.choice * NODES)]
        while not self._faulty.add(node.number, seconds=0.5):
            if self._stopping.is_set():
                return
        # A third failed start in a row would end a session.
        while self._cluster.list_last_starts():
            if self._stopping.wait(0.5):
                self._faulty.remove(node.number)
                return
        # A launch of this node that has no process yet can be of any session.
        self.failed_starts.update(self._cluster.list_starting())
        self._report(fault, f"node {node.number}")

        def cause() -> None:
            begin = time.monotonic()
            _CAUSES[fault.kind](node, fault.seconds)
            node.wait_ready()
            self._print(f"node {node.number} is ready {time.monotonic() - begin:.1f} s after that")
            self._faulty.remove(node.number)

        self._start_thread(cause)

    def _start_thread(self, cause: Callable[[], None]) -> None:
        def run() -> None:
            try:
                cause()
            except Exception:  # noqa: BLE001 - every error is a violation that the report must show
                self.errors.append(f"a node was not healed: {traceback.format_exc()}")

        self._faults.append(threading.Thread(target=run, daemon=True))
        self._faults[-1].start()

    def _report(self, fault: PlannedFault, target: str) -> None:
        self.counts[fault.kind] += 1
        lasting = f", {fault.seconds:.1f} s" if fault.seconds else ""
        self._print(f"{fault.kind}: {target}{lasting}")

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", flush=True)


def _harm_processes(fault: PlannedFault, drivers: list[DriverProcess]) -> None:
    """Kill one process of a driver, or freeze all its processes for some seconds."""
    processes = [driver.process for driver in drivers]
    java = [process for process in processes if _is_java(process)]
    python = [process for process in processes if process not in java]
    if fault.kind is FaultKind.DRIVER_KILLED:
        _signal(python, signal.SIGKILL)
    elif fault.kind in {FaultKind.JVM_KILLED, FaultKind.STARTING_JVM_KILLED}:
        _signal(java, signal.SIGKILL)
    elif fault.kind in _IN_STARTS:
        _signal(processes, signal.SIGKILL)
    else:
        _signal(processes, signal.SIGSTOP)
        # The pause is the fault itself: there is no condition to wait for.
        time.sleep(fault.seconds)
        # Python first: it ends the JVM if the driver has lost its session in the meantime.
        _signal([*python, *java], signal.SIGCONT)


def _is_java(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return "java" in process.name()
    return False


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _kill_node(node: ClusterNode, seconds: float) -> None:
    node.process.kill()
    time.sleep(seconds)


def _freeze_node(node: ClusterNode, seconds: float) -> None:
    node.process.freeze(seconds)


def _kill_host(node: ClusterNode, seconds: float) -> None:
    node.kill_host()
    time.sleep(seconds)
    node.restart_host()


def _cut_host(node: ClusterNode, seconds: float) -> None:
    node.host.cut_network()
    try:
        time.sleep(seconds)
    finally:
        node.host.restore_network()


_CAUSES: dict[FaultKind, Callable[[ClusterNode, float], None]] = {
    FaultKind.NODE_KILLED: _kill_node,
    FaultKind.NODE_FROZEN_BRIEFLY: _freeze_node,
    FaultKind.NODE_FROZEN: _freeze_node,
    FaultKind.HOST_KILLED: _kill_host,
    FaultKind.HOST_CUT_BRIEFLY: _cut_host,
    FaultKind.HOST_CUT: _cut_host,
}
