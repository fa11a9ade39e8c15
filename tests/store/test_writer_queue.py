"""Writers are served in the order in which they came."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
from tests.support.waiting import wait_until

from headrace.errors import StoreUnavailable
from headrace.store.writer_queue import WriterQueue


def _start(assignment: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=assignment)
    thread.start()
    return thread


def test_turns_come_in_order() -> None:
    queue = WriterQueue()
    served: list[int] = []

    def write(number: int) -> None:
        with queue.turn(30):
            served.append(number)

    with queue.turn(30):
        threads = []
        for number in range(20):
            threads.append(_start(lambda number=number: write(number)))  # type: ignore[misc]
            wait_until(lambda number=number: queue.waiting == number + 1)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert served == list(range(20))


def test_who_has_just_had_a_turn_goes_to_the_end() -> None:
    """With a plain lock, a thread that asks again at once nearly always wins."""
    queue = WriterQueue()
    served: list[str] = []

    def write(name: str) -> None:
        for _ in range(20):
            with queue.turn(30):
                served.append(name)
                # The other one waits again, or has had its last turn.
                wait_until(lambda: queue.waiting or served.count(other[name]) == 20)

    other = {"a": "b", "b": "a"}
    threads = [_start(lambda: write("a")), _start(lambda: write("b"))]
    for thread in threads:
        thread.join()
    assert all(first != second for first, second in pairwise(served))


def test_one_at_a_time() -> None:
    queue = WriterQueue()
    inside = threading.Semaphore(1)

    def write() -> None:
        for _ in range(300):
            with queue.turn(30):
                assert inside.acquire(blocking=False)
                inside.release()

    threads = [_start(write) for _ in range(6)]
    for thread in threads:
        thread.join()
    assert queue.waiting == 0


def test_patience_ends_and_the_queue_goes_on() -> None:
    queue = WriterQueue()
    refused = threading.Event()

    def give_up() -> None:
        with pytest.raises(StoreUnavailable, match="turn"), queue.turn(0.01):
            pass
        refused.set()

    with queue.turn(30):
        thread = _start(give_up)
        assert refused.wait(30)
        thread.join()
        assert queue.waiting == 0
    with queue.turn(0):
        pass


def test_a_failure_inside_passes_the_turn_on() -> None:
    queue = WriterQueue()
    with pytest.raises(LookupError), queue.turn(30):
        raise LookupError
    with queue.turn(0):
        pass


def test_a_turn_inside_a_turn_is_a_mistake() -> None:
    queue = WriterQueue()
    with queue.turn(30), pytest.raises(RuntimeError, match="wait for itself"), queue.turn(30):
        pass
