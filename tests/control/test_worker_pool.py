"""The threads for work that may hang."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.waiting import wait_until

from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable

_Job = tuple[Future[Any], Callable[[], Any]]


class SlowQueue(queue.SimpleQueue[_Job]):
    """A queue whose reader receives a job, and is then interrupted until `resume` is set."""

    received, resume = threading.Event(), threading.Event()
    reads = 0

    def get(self, block: bool = True, timeout: float | None = None) -> _Job:
        SlowQueue.reads += 1
        job = super().get(block, timeout)
        self.received.set()
        self.resume.wait(30)
        return job


def test_a_call_does_not_wait_for_a_thread_that_has_just_received_another_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(queue, "SimpleQueue", SlowQueue)
        pool = WorkerPool("race-test", threads=2, seconds=10)
    SlowQueue.resume.set()
    assert pool.call(int, "1") == 1
    wait_until(lambda: SlowQueue.reads == 2, what="the thread waits for its second call")
    SlowQueue.resume.clear()
    SlowQueue.received.clear()
    ran = threading.Event()
    # The first call ends only after the second one has run.
    first = pool.submit(lambda: ran.wait(60))
    assert SlowQueue.received.wait(60)
    second = pool.submit(ran.set)
    SlowQueue.resume.set()
    second.result(60)
    assert first.result(60)


def test_calls_that_wait_behind_hanging_calls_run_when_those_are_abandoned() -> None:
    pool = WorkerPool("hang-test", threads=1, seconds=0.3, storage="tape drive")
    released = threading.Event()
    with ThreadPoolExecutor() as callers:
        hanging = [callers.submit(pool.call, released.wait) for _ in range(3)]
        for call in hanging:
            with pytest.raises(ResultsUnavailable, match="tape drive did not answer within"):
                call.result(60)
    assert pool.submit(lambda: 7).result(60) == 7
    released.set()
    wait_until(lambda: len(_threads("hang-test")) == 1, what="the abandoned threads end")
    assert pool.submit(lambda: 8).result(60) == 8


def _threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"headrace-{name}"]
