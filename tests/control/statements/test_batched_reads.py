"""Requests that share one read of the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace

import pytest

from headrace.control.statements import lookup
from headrace.control.statements.lookup import BatchedReads
from headrace.errors import StoreUnavailable


class _Store:
    """Each record is the number of its read. A read ends with a permit."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.permits = threading.Semaphore(0)
        self.error: Exception | None = None

    def read_all(self, ids: Sequence[str]) -> dict[str, int]:
        self.reads.append(list(ids))
        number = len(self.reads)
        assert self.permits.acquire(timeout=60)
        if self.error is not None:
            raise self.error
        return {each: number for each in ids if each != "unknown"}


def _run(store: _Store, act: Callable[[BatchedReads[int]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await act(BatchedReads[int](store.read_all))

    asyncio.run(run())


async def _occupy(store: _Store, reads: BatchedReads[int]) -> list[asyncio.Task[int | None]]:
    """Begin as many reads as may run at once."""
    tasks = []
    for number in range(2):
        tasks.append(asyncio.create_task(reads.get(f"first{number}")))
        while len(store.reads) <= number:
            await asyncio.sleep(0.001)
    return tasks


def test_requests_that_arrive_during_the_reads_share_the_next_one() -> None:
    store = _Store()

    async def act(reads: BatchedReads[int]) -> None:
        first = await _occupy(store, reads)
        later = [asyncio.create_task(reads.get(each)) for each in ("a", "b", "a", "unknown")]
        await asyncio.sleep(0)
        store.permits.release(3)
        assert await asyncio.gather(*first) == [1, 2]
        assert await asyncio.gather(*later) == [3, 3, 3, None]
        assert store.reads[2:] == [["a", "b", "unknown"]]

    _run(store, act)


def test_a_request_during_the_read_of_its_record_sees_a_later_read() -> None:
    store = _Store()

    async def act(reads: BatchedReads[int]) -> None:
        first = await _occupy(store, reads)
        again = asyncio.create_task(reads.get("first0"))
        await asyncio.sleep(0)
        store.permits.release(3)
        assert await asyncio.gather(*first, again) == [1, 2, 3]

    _run(store, act)


def test_a_read_has_a_limited_number_of_records() -> None:
    store = _Store()

    async def act(reads: BatchedReads[int]) -> None:
        first = await _occupy(store, reads)
        later = [asyncio.create_task(reads.get(str(number))) for number in range(70)]
        await asyncio.sleep(0)
        store.permits.release(5)
        await asyncio.gather(*first, *later)
        assert sorted(len(ids) for ids in store.reads[2:]) == [6, 32, 32]

    _run(store, act)


def test_a_failed_read_fails_its_requests_only() -> None:
    store = _Store()

    async def act(reads: BatchedReads[int]) -> None:
        store.error = StoreUnavailable("The store does not answer.")
        store.permits.release(1)
        with pytest.raises(StoreUnavailable):
            await reads.get("a")
        store.error = None
        store.permits.release(1)
        assert await reads.get("a") == 2

    _run(store, act)


def test_a_request_that_is_cancelled_leaves_the_others_their_record() -> None:
    store = _Store()

    async def act(reads: BatchedReads[int]) -> None:
        first = await _occupy(store, reads)
        leaving, staying = (asyncio.create_task(reads.get("a")) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        store.permits.release(3)
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await staying == 3
        await asyncio.gather(*first)

    _run(store, act)


def test_a_request_that_arrives_as_the_last_read_ends_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    permits: list[asyncio.Future[None]] = []

    async def read(_read_all: object, ids: Sequence[str]) -> dict[str, int]:
        permits.append(asyncio.get_running_loop().create_future())
        await permits[-1]
        return dict.fromkeys(ids, len(permits))

    monkeypatch.setattr(lookup, "_MAX_READS", 1)
    # Only in this module: nodes of other tests call the function as well.
    monkeypatch.setattr(lookup, "to_thread", SimpleNamespace(run_sync=read))

    async def act(reads: BatchedReads[int]) -> None:
        first = asyncio.create_task(reads.get("a"))
        while not permits:
            await asyncio.sleep(0)
        # The event loop runs the end of the read, and then this request, before anything else.
        permits[0].set_result(None)
        second = asyncio.create_task(reads.get("b"))
        while len(permits) < 2:
            await asyncio.sleep(0)
        permits[1].set_result(None)
        assert (await first, await second) == (1, 2)

    _run(_Store(), act)
