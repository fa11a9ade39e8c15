"""Long polls: when they read the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.frontends.http.long_polls import LongPolls, Rereads

_SECONDS = 0.5
_INTERVAL = 0.05


class _Reader:
    """Counts the checks of a long poll, and wakes the poll."""

    def __init__(self, *, answer_at: int | None = None) -> None:
        self.checks = 0
        self.wake: Callable[[], None] = lambda: None
        self._answer_at = answer_at

    async def check(self) -> str | None:
        self.checks += 1
        return "answer" if self.checks == self._answer_at else None

    @contextmanager
    def subscribe(self, wake: Callable[[], None]) -> Iterator[None]:
        self.wake = wake
        yield


def _wait(reader: _Reader, *, hears: bool, rereads: Rereads) -> str | None:
    long_polls = LongPolls(hears_wake_ups=lambda: hears, poll_seconds=_INTERVAL)

    async def run() -> str | None:
        poll = long_polls.wait(reader.subscribe, reader.check, seconds=_SECONDS, rereads=rereads)
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
    assert 3 <= reader.checks <= 6


def test_a_wait_for_a_statement_reads_at_each_interval_while_wake_ups_do_not_arrive() -> None:
    reader = _Reader(answer_at=8)

    assert _wait(reader, hears=False, rereads=Rereads.RARE) == "answer"
