"""The wait of a statement for its write lock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import cast

import pytest

from headrace.driver.ctas import Cancelled
from headrace.driver.link import NodeLink
from headrace.driver.writes.locks import PlannedWrites, wait_for_lock
from headrace.model.messages import BeginWrite, WriteLock
from headrace.model.transaction import TableWrite

pytestmark = pytest.mark.finding("B21")

_WRITES = PlannedWrites("metastore", [TableWrite(location="file:/t", overwrite=True)])
_STATEMENT, _OTHER = f"st_{'1' * 32}", f"st_{'2' * 32}"
_BUSY = WriteLock(granted=False, waits_for=_OTHER)
_GRANTED = WriteLock(granted=True)


class LockLink:
    """Answers the requests for a write lock in order; the last answer is repeated."""

    def __init__(self, *answers: WriteLock) -> None:
        self._answers = list(answers)
        self.requests: list[BeginWrite] = []
        self.asked_twice = threading.Event()

    def begin_write(self, message: BeginWrite) -> WriteLock:
        self.requests.append(message)
        if len(self.requests) > 1:
            self.asked_twice.set()
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def wait(
        self, cancelling: threading.Event, on_blocked: Callable[[], None] = lambda: None
    ) -> None:
        link = cast("NodeLink", self)
        wait_for_lock(link, _STATEMENT, _WRITES, cancelling, on_blocked=on_blocked)


def test_a_statement_waits_until_its_lock_is_granted_and_logs_for_what(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link = LockLink(_BUSY, _BUSY, _GRANTED)
    with caplog.at_level(logging.INFO, logger="headrace.driver"):
        link.wait(threading.Event())
    assert len(link.requests) == 3
    # Nodes of other tests may log, too.
    assert [each.message for each in caplog.records if each.name == "headrace.driver"] == [
        f"statement {_STATEMENT} waits for {_OTHER}, which writes to the same table"
    ]


class PauseRecorder(threading.Event):
    """An event that is never set. It records the pauses instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        return False


def test_the_pauses_between_the_requests_for_a_lock_grow_to_a_second() -> None:
    recorder = PauseRecorder()
    LockLink(*[_BUSY] * 10, _GRANTED).wait(recorder)
    assert recorder.pauses == sorted(recorder.pauses)
    assert recorder.pauses[0] < 0.1
    assert recorder.pauses[-2:] == [1.0, 1.0]


def test_a_driver_that_waits_for_long_looks_for_commits_of_lost_drivers() -> None:
    calls: list[None] = []
    LockLink(*[_BUSY] * 10, _GRANTED).wait(PauseRecorder(), lambda: calls.append(None))
    assert 1 <= len(calls) < 10


def test_a_cancel_ends_the_wait() -> None:
    link, cancelling = LockLink(_BUSY), threading.Event()
    canceller = threading.Thread(
        target=lambda: link.asked_twice.wait(60) and cancelling.set() is None
    )
    canceller.start()
    with pytest.raises(Cancelled):
        link.wait(cancelling)
    canceller.join()


def test_a_statement_that_the_node_has_cancelled_does_not_wait() -> None:
    link = LockLink(WriteLock(granted=False))
    with pytest.raises(Cancelled):
        link.wait(threading.Event())
    assert len(link.requests) == 1
