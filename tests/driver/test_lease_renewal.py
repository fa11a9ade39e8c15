"""The process of a driver renews the lease; its JVM is judged apart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import cast
from unittest import mock

import pytest
from tests.support.journal import BOOTSTRAP
from tests.support.waiting import wait_until

from headrace.driver.lease_renewal import JvmMonitor, LeaseRenewal
from headrace.driver.link import NodeLink
from headrace.driver.spark import Spark
from headrace.driver.streams.supervisor import Supervisor
from headrace.errors import DriverLost, HeadraceError, LeaseLost
from headrace.model.messages import Renewed
from headrace.model.stream_query import QueryReport

pytestmark = pytest.mark.finding("B14")


class ScriptedJvm:
    """A JVM that answers while `answering` is set, and that may have died."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.answering.set()
        self.alive = True
        self.streams = 3

    def is_alive(self) -> bool:
        return self.alive

    def count_streams(self) -> int:
        self.answering.wait()
        return self.streams

    def as_spark(self) -> Spark:
        return cast("Spark", self)


class ScriptedClock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


class RenewingLink:
    """A link that records the renewals, and refuses them after a takeover."""

    def __init__(self, jvm_timeout: float) -> None:
        self.bootstrap = BOOTSTRAP.model_copy(
            update={"renew_seconds": 0.01, "jvm_timeout_seconds": jvm_timeout}
        )
        self.renewals: list[int] = []
        self.taken_over = False

    def renew(self, streams: int, _queries: Sequence[QueryReport], _held: Sequence[str]) -> Renewed:
        if self.taken_over:
            raise LeaseLost("superseded")
        self.renewals.append(streams)
        return Renewed(applied=True)


Start = Callable[[RenewingLink], list[HeadraceError]]


@pytest.fixture
def jvm() -> ScriptedJvm:
    return ScriptedJvm()


@pytest.fixture
def start(jvm: ScriptedJvm) -> Iterator[Start]:
    """Return a function that starts the renewal, and returns the list of its errors."""
    renewals: list[LeaseRenewal] = []

    def start(link: RenewingLink) -> list[HeadraceError]:
        errors: list[HeadraceError] = []
        supervisor = Supervisor(start_run=mock.Mock(), read_conf=dict, on_change=mock.Mock())
        renewals.append(
            LeaseRenewal(cast("NodeLink", link), jvm.as_spark(), supervisor, errors.append)
        )
        renewals[-1].start()
        return errors

    yield start
    for renewal in renewals:
        renewal.stop()
    jvm.answering.set()


def test_the_lease_is_renewed_while_the_jvm_does_not_answer(jvm: ScriptedJvm, start: Start) -> None:
    link = RenewingLink(jvm_timeout=60)
    errors = start(link)
    wait_until(lambda: 3 in link.renewals, what="the answer of the JVM is renewed")
    jvm.answering.clear()
    count = len(link.renewals)
    wait_until(lambda: len(link.renewals) > count + 10, what="the lease is renewed")
    assert errors == []


def test_a_jvm_that_does_not_answer_for_too_long_is_lost(jvm: ScriptedJvm, start: Start) -> None:
    jvm.answering.clear()
    errors = start(RenewingLink(jvm_timeout=0.1))
    wait_until(lambda: errors, what="the driver is lost")
    assert isinstance(errors[0], DriverLost)
    assert "has not answered for 0.1 s" in errors[0].message


def test_a_jvm_that_answers_again_in_time_is_kept(jvm: ScriptedJvm) -> None:
    clock = ScriptedClock()
    monitor = JvmMonitor(jvm.as_spark(), interval=5, timeout=60, clock=clock.read)
    for _ in range(12):
        clock.now += 5
        monitor.check()
    monitor.record_answer(1)
    for _ in range(12):
        clock.now += 5
        assert monitor.check() == 1
    clock.now += 5
    with pytest.raises(DriverLost):
        monitor.check()


def test_a_process_that_was_frozen_itself_does_not_blame_its_jvm(jvm: ScriptedJvm) -> None:
    clock = ScriptedClock()
    monitor = JvmMonitor(jvm.as_spark(), interval=5, timeout=60, clock=clock.read)
    clock.now += 3600
    monitor.check()


def test_a_dead_jvm_is_lost_at_once(jvm: ScriptedJvm, start: Start) -> None:
    jvm.alive = False
    errors = start(RenewingLink(jvm_timeout=60))
    wait_until(lambda: errors, what="the driver is lost")
    assert errors[0].message == "The JVM of the driver died."


def test_a_lost_lease_ends_the_renewal(start: Start) -> None:
    link = RenewingLink(jvm_timeout=60)
    errors = start(link)
    link.taken_over = True
    wait_until(lambda: errors, what="the lease is lost")
    assert isinstance(errors[0], LeaseLost)
