"""The periodic tasks of a node: errors of one task, and the readiness of the node."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.in_process_node import StartNode
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.control import periodic_tasks
from headrace.control.context import NodeContext
from headrace.control.expiry import Expiry
from headrace.control.periodic_tasks import PeriodicTask, PeriodicTasks
from headrace.errors import NodeNotReady, StoreUnavailable
from headrace.store.database import Database, Tx
from headrace.store.sessions.sessions import CLOSE_RULES, CloseRule

STATEMENTS = "timeouts of statements"
TIME_LIMITS = [*CLOSE_RULES, STATEMENTS]


class FakeClock:
    """A boot clock that a test moves.

    Nodes of other tests keep theirs: they would count as away, and judge no driver for a lease.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        others = set(threading.enumerate()) - {threading.current_thread()}
        read = periodic_tasks.read_boot_clock

        def read_own() -> float:
            return read() if threading.current_thread() in others else self.now

        monkeypatch.setattr(periodic_tasks, "read_boot_clock", read_own)


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    database = Database.open(sqlite_url)
    yield database
    database.close()


@contextmanager
def run_tasks(
    database: Database, *runs: Callable[[], object], on_return: Callable[[], None] = lambda: None
) -> Iterator[PeriodicTasks]:
    """Run tasks in a sweep every 20 ms, with leases of ten seconds."""
    settings = Settings(lease={"duration": "10s", "sweep": "20ms"})
    context = NodeContext(database, settings, node_id="no_1", address="http://node.invalid")
    tasks = PeriodicTasks(
        context,
        [PeriodicTask(f"task {number}", run) for number, run in enumerate(runs)],
        on_return=on_return,
    )
    tasks.start()
    try:
        yield tasks
    finally:
        tasks.stop()


@pytest.mark.finding("S5")
def test_an_error_of_one_task_does_not_stop_the_other_tasks(database: Database) -> None:
    reached = threading.Event()

    def fail() -> None:
        raise ValueError("a bad row")

    with run_tasks(database, fail, reached.set):
        assert reached.wait(60)


@pytest.mark.finding("S5")
@pytest.mark.parametrize("failing", TIME_LIMITS)
def test_an_error_of_one_time_limit_does_not_stop_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    context = NodeContext(database, Settings(), node_id="no_1", address="http://node.invalid")
    checked: list[str] = []
    own_thread = threading.get_ident()

    def check(name: str) -> list[object]:
        if threading.get_ident() != own_thread:
            return []  # a node of another test
        checked.append(name)
        if name == failing:
            raise ValueError("a bad row")
        return []

    def list_to_close(_tx: Tx, rule: CloseRule, _limit: int) -> list[object]:
        return check(next(name for name, each in CLOSE_RULES.items() if each is rule))

    monkeypatch.setattr("headrace.control.expiry.sessions.list_to_close", list_to_close)
    monkeypatch.setattr("headrace.control.expiry.timed_out", lambda *_arguments: check(STATEMENTS))
    Expiry(context).run()
    assert checked == TIME_LIMITS


@pytest.mark.finding("S5")
def test_a_node_whose_sweep_is_stuck_is_not_ready(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(monkeypatch)
    entered, release = threading.Event(), threading.Event()

    def get_stuck() -> None:
        entered.set()
        release.wait(30)

    with run_tasks(database, get_stuck) as tasks:
        try:
            assert entered.wait(60)
            clock.now += 9
            tasks.check_recent()
            clock.now += 2
            with pytest.raises(NodeNotReady):
                tasks.check_recent()
        finally:
            release.set()
        wait_until(lambda: is_ready(tasks), what="the sweep continues")


def test_a_node_with_a_stuck_sweep_can_stop(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_tasks, "_STOP_SECONDS", 0.1)
    entered, release = threading.Event(), threading.Event()

    def get_stuck() -> None:
        entered.set()
        assert release.wait(30)

    with run_tasks(database, get_stuck) as tasks:
        try:
            assert entered.wait(60)
            start = time.monotonic()
            tasks.stop()
            assert time.monotonic() - start < 20
        finally:
            release.set()
            wait_until(lambda: not tasks._thread.is_alive(), what="the sweep ends")


def is_ready(tasks: PeriodicTasks) -> bool:
    try:
        tasks.check_recent()
    except NodeNotReady:
        return False
    return True


@pytest.mark.finding("S5")
def test_readiness_reports_a_sweep_that_makes_no_progress(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(lease={"duration": "10s", "sweep": "1h"})
    assert node.http.get("/ready").status_code == 200
    # Each reading is six hours later than the last one, so that also the end of a sweep that is
    # under way is six hours old.
    times = itertools.count(periodic_tasks.read_boot_clock(), 6 * 3600)
    next(times)
    monkeypatch.setattr(periodic_tasks, "read_boot_clock", lambda: next(times))
    response = node.http.get("/ready")
    assert (response.status_code, response.json()["code"]) == (503, "node_not_ready")


@pytest.mark.finding("B1")
def test_a_node_that_was_frozen_for_more_than_half_a_lease_counts_as_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(monkeypatch)
    returns: list[float] = []
    sweeps: list[float] = []
    with run_tasks(
        database,
        lambda: sweeps.append(clock.now),
        on_return=lambda: returns.append(clock.now),
    ):
        wait_until(lambda: sweeps, what="the first sweep")
        assert returns == [1000.0]
        clock.now += 4
        wait_until(lambda: sweeps[-1] == 1004.0, what="a sweep after a short pause")
        assert returns == [1000.0]
        clock.now += 6
        # A sweep that was under way has the new time too, but is not the first after the freeze.
        wait_until(lambda: len(returns) > 1, what="a sweep after a freeze")
        assert returns == [1000.0, 1010.0]


def test_a_node_returns_after_an_outage_of_the_store(database: Database) -> None:
    outages = [StoreUnavailable("down")]
    returns: list[None] = []

    def run() -> None:
        if outages:
            raise outages.pop()

    with run_tasks(database, run, on_return=lambda: returns.append(None)):
        wait_until(lambda: len(returns) == 2, what="the node has come back")
