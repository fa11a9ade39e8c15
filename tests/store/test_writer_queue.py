"""The writer queue serves threads by class, and within a class in order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.waiting import wait_until

from headrace.errors import StoreUnavailable
from headrace.store.database import Precedence, WriterQueue


def _start(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_threads_are_served_in_order_of_arrival() -> None:
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


def test_a_thread_that_returns_at_once_goes_to_the_end_of_the_queue() -> None:
    """With a plain lock, a thread that acquires it again at once nearly always wins."""
    queue = WriterQueue()
    served: list[str] = []

    def write(name: str) -> None:
        for _ in range(20):
            with queue.turn(30):
                served.append(name)
                # The other thread waits again, or has had its last turn.
                wait_until(lambda: queue.waiting or served.count(other[name]) == 20)

    other = {"a": "b", "b": "a"}
    threads = [_start(lambda: write("a")), _start(lambda: write("b"))]
    for thread in threads:
        thread.join()
    assert all(first != second for first, second in pairwise(served))


def test_one_thread_at_a_time_has_the_turn() -> None:
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


def test_a_thread_that_times_out_leaves_the_queue() -> None:
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


def test_an_exception_inside_a_turn_ends_it() -> None:
    queue = WriterQueue()
    with pytest.raises(LookupError), queue.turn(30):
        raise LookupError
    with queue.turn(0):
        pass


def test_a_turn_inside_a_turn_is_an_error() -> None:
    queue = WriterQueue()
    with queue.turn(30), pytest.raises(RuntimeError, match="wait for itself"), queue.turn(30):
        pass


@settings(max_examples=15, deadline=None)
@given(arrivals=st.lists(st.sampled_from(Precedence), min_size=1, max_size=25))
def test_renewals_go_first_and_no_writer_starves(arrivals: list[Precedence]) -> None:
    """Many writers wait; of each class, the first one is served after few of the other classes."""
    queue = WriterQueue()
    served: list[int] = []

    def write(number: int) -> None:
        with queue.turn(30, arrivals[number]):
            served.append(number)

    with queue.turn(30):
        threads = []
        for number in range(len(arrivals)):
            threads.append(_start(lambda number=number: write(number)))  # type: ignore[misc]
            wait_until(lambda number=number: queue.waiting == number + 1, every=0.0005)  # type: ignore[misc]
    for thread in threads:
        thread.join()

    for precedence in Precedence:
        of_class = [number for number in served if arrivals[number] is precedence]
        assert of_class == sorted(of_class)
    for index, number in enumerate(served):
        earlier = [each for each in served[index:] if arrivals[each] < arrivals[number]]
        if earlier:
            # It was served before writers of an earlier class, because it had waited for long.
            before = [arrivals[each] for each in served[:index]]
            assert len(before) >= 8
            assert arrivals[number] not in before[-8:]


def test_a_writer_of_an_earlier_class_goes_before_writers_that_have_waited_longer() -> None:
    queue = WriterQueue()
    served: list[Precedence] = []
    arrivals = [Precedence.OTHERS, Precedence.OTHERS, Precedence.REPORTS, Precedence.LEASES]

    def write(precedence: Precedence) -> None:
        with queue.turn(30, precedence):
            served.append(precedence)

    with queue.turn(30):
        threads = []
        for number, precedence in enumerate(arrivals):
            threads.append(_start(lambda precedence=precedence: write(precedence)))  # type: ignore[misc]
            wait_until(lambda number=number: queue.waiting == number + 1)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert served == sorted(arrivals)


def test_reserved_turns_are_free_for_renewals_while_other_writers_wait() -> None:
    queue = WriterQueue(turns=3, reserved=1)
    with queue.turn(0), queue.turn(0):
        with pytest.raises(StoreUnavailable), queue.turn(0.01):
            pass
        with queue.turn(0, Precedence.LEASES), pytest.raises(StoreUnavailable):  # noqa: SIM117
            with queue.turn(0.01, Precedence.REPORTS):
                pass
    with queue.turn(0), queue.turn(0):
        pass


def test_the_time_that_a_writer_has_waited_is_taken_from_its_seconds() -> None:
    queue = WriterQueue()
    remaining: list[float] = []

    def write() -> None:
        with queue.turn(30) as seconds:
            remaining.append(seconds)

    with queue.turn(30) as seconds:
        assert seconds == 30
        thread = _start(write)
        wait_until(lambda: queue.waiting == 1)
    thread.join()
    assert 0 < remaining[0] < 30
