"""The threads that read results: a session uses a few of them at a time."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.control.worker_pool import _SESSION_READS, ResultReads, _HeldReads
from headrace.errors import ResultsUnavailable
from headrace.model.result import ResultHolder
from headrace.model.statement import Statement


def make_statement(session_id: str | None) -> Statement:
    """Return a statement with a result that the driver of a session holds, or that is stored."""
    holder = None
    if session_id is not None:
        holder = ResultHolder(session_id=session_id, epoch=1, endpoint="127.0.0.1:40000")
    return cast("Statement", SimpleNamespace(result=SimpleNamespace(holder=holder)))


def test_a_read_waits_for_other_reads_of_its_session_but_not_for_ever() -> None:
    reads = ResultReads(seconds=60)

    async def read_all() -> list[int]:
        held = reads.select(make_statement("se_1"))
        assert isinstance(held, _HeldReads)
        for _number in range(_SESSION_READS):
            await held._slots.acquire()
        impatient = reads.select(make_statement("se_1"))
        assert isinstance(impatient, _HeldReads)
        impatient._seconds = 0.3
        late = asyncio.create_task(impatient.run(int, "1"))
        others = [
            await reads.select(make_statement(session_id)).run(int, "2")
            for session_id in ("se_2", None)
        ]
        with pytest.raises(ResultsUnavailable, match=r"Other reads from the driver.*0.3 s"):
            await late
        return others

    assert asyncio.run(read_all()) == [2, 2]


def test_a_read_keeps_its_place_until_its_thread_is_free() -> None:
    reads = ResultReads(seconds=60)
    may_end = threading.Event()

    async def read_all() -> None:
        left = [
            asyncio.create_task(reads.select(make_statement("se_1")).run(may_end.wait, 60))
            for _number in range(_SESSION_READS)
        ]
        await asyncio.sleep(0)
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        late = asyncio.create_task(reads.select(make_statement("se_1")).run(int, "4"))
        assert await reads.select(make_statement("se_2")).run(int, "5") == 5
        assert not late.done()
        may_end.set()
        assert await late == 4

    asyncio.run(read_all())


def test_a_read_that_ends_makes_room_for_the_next_one() -> None:
    reads = ResultReads()

    async def read_all() -> list[int]:
        held = [reads.select(make_statement("se_1")) for _number in range(20)]
        return await asyncio.gather(*(each.run(int, "3") for each in held))

    assert asyncio.run(read_all()) == [3] * 20
