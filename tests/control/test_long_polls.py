"""Long polls: when they read the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from headrace.control.long_polls import LongPolls, Rereads

_SECONDS = 0.5
"""Seconds of a poll that gets no answer."""
_INTERVAL = 0.05
_LONG = 30.0
"""Seconds of a poll that ends earlier, with its answer or with its node."""


class _Reader:
    """Counts the checks of a long poll, and wakes the poll."""

    def __init__(self, *, answer_at: int | None = None) -> None:
        self.checks = 0
        self.wake: Callable[[], None] = lambda: None
        self.seconds = _SECONDS if answer_at is None else _LONG
        self._answer_at = answer_at

    async def check(self) -> str | None:
        self.checks += 1
        return "answer" if self.checks == self._answer_at else None

    @contextmanager
    def subscribe(self, wake: Callable[[], None]) -> Iterator[None]:
        self.wake = wake
        yield


class _ThreadReader:
    """Counts the checks of a request in a thread, and wakes the request."""

    def __init__(self, *, answer_at: int | None = None) -> None:
        self.checks = 0
        self.checked = threading.Event()
        self.wake: Callable[[], None] = lambda: None
        self._answer_at = answer_at

    def check(self) -> str | None:
        self.checks += 1
        self.checked.set()
        return "answer" if self.checks == self._answer_at else None

    @contextmanager
    def subscribe(self, wake: Callable[[], None]) -> Iterator[None]:
        self.wake = wake
        yield


def _wait_in_thread(
    long_polls: LongPolls, reader: _ThreadReader, *, act: Callable[[], None]
) -> str | None:
    """Wait in a thread, act after the first check, and return the answer."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(
            long_polls.wait_in_thread, reader.subscribe, reader.check, seconds=_LONG
        )
        assert reader.checked.wait(60)
        act()
        return answer.result(60)


def _wait(reader: _Reader, *, hears: bool, rereads: Rereads) -> str | None:
    long_polls = LongPolls(hears_wake_ups=lambda: hears, poll_seconds=_INTERVAL)

    async def run() -> str | None:
        poll = long_polls.wait(
            reader.subscribe, reader.check, seconds=reader.seconds, rereads=rereads
        )
        waiting = asyncio.create_task(poll)
        while not reader.checks:
            await asyncio.sleep(0)
        reader.wake()
        return await waiting

    return asyncio.run(run())


def test_an_idle_poll_reads_once_and_after_each_wake_up_while_wake_ups_arrive() -> None:
    reader = _Reader()

    assert _wait(reader, hears=True, rereads=Rereads.NEVER) is None

    assert reader.checks == 2


def test_an_idle_poll_reads_at_each_interval_while_wake_ups_do_not_arrive() -> None:
    reader = _Reader(answer_at=5)

    assert _wait(reader, hears=False, rereads=Rereads.NEVER) == "answer"


def test_another_poll_reads_at_each_interval() -> None:
    reader = _Reader(answer_at=5)

    assert _wait(reader, hears=True, rereads=Rereads.STEADY) == "answer"


def test_a_wake_up_ends_an_idle_poll_that_has_an_answer() -> None:
    reader = _Reader(answer_at=2)

    assert _wait(reader, hears=True, rereads=Rereads.NEVER) == "answer"


def test_a_wait_for_a_statement_reads_ever_more_rarely_while_wake_ups_arrive() -> None:
    reader = _Reader()

    assert _wait(reader, hears=True, rereads=Rereads.RARE) is None

    # At once, after the wake-up, and after 1, 3, 7 and 15 intervals at most.
    assert reader.checks <= 6
    # It reads again without a further wake-up.
    again = _Reader(answer_at=3)
    assert _wait(again, hears=True, rereads=Rereads.RARE) == "answer"


def test_a_wait_for_a_statement_reads_at_each_interval_while_wake_ups_do_not_arrive() -> None:
    reader = _Reader(answer_at=8)

    assert _wait(reader, hears=False, rereads=Rereads.RARE) == "answer"


def test_a_request_in_a_thread_reads_after_a_wake_up() -> None:
    reader = _ThreadReader(answer_at=2)
    long_polls = LongPolls(hears_wake_ups=lambda: True, poll_seconds=_LONG)

    assert _wait_in_thread(long_polls, reader, act=lambda: reader.wake()) == "answer"  # noqa: PLW0108 - set by the wait


def test_a_request_in_a_thread_reads_at_each_interval_while_wake_ups_do_not_arrive() -> None:
    reader = _ThreadReader(answer_at=5)
    long_polls = LongPolls(hears_wake_ups=lambda: False, poll_seconds=_INTERVAL)

    assert _wait_in_thread(long_polls, reader, act=lambda: None) == "answer"


def test_the_end_of_the_node_releases_a_request_in_a_thread() -> None:
    reader = _ThreadReader()
    long_polls = LongPolls(hears_wake_ups=lambda: True, poll_seconds=_LONG)

    assert _wait_in_thread(long_polls, reader, act=long_polls.release) is None


def test_a_request_in_a_thread_ends_when_its_time_is_over() -> None:
    reader = _ThreadReader()
    long_polls = LongPolls(hears_wake_ups=lambda: True, poll_seconds=_LONG)

    answer = long_polls.wait_in_thread(reader.subscribe, reader.check, seconds=_INTERVAL)

    assert answer is None
