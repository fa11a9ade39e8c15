from __future__ import annotations

import time

import pytest

from headrace.errors import ResultsUnavailable
from headrace.results.read_limits import BufferLimit, limit_seconds, run_within


def test_calls_of_a_read_share_its_time() -> None:
    assert limit_seconds(7) == 7
    assert run_within(0.2, lambda: limit_seconds(7)) <= 0.2
    assert run_within(60, lambda: limit_seconds(7)) == 7
    assert limit_seconds(7) == 7


def test_a_read_that_is_too_long_is_given_up() -> None:
    def read_for_ever() -> None:
        while True:
            limit_seconds(7)

    start = time.monotonic()
    with pytest.raises(ResultsUnavailable, match="in time"):
        run_within(0.05, read_for_ever)
    assert time.monotonic() - start < 30


def test_all_reads_together_buffer_a_number_of_bytes() -> None:
    buffers = BufferLimit(100)
    with buffers.buffering() as count, buffers.buffering() as count_other:
        count(60)
        count_other(40)
        with pytest.raises(ResultsUnavailable, match="too many rows"):
            count(1)
    with buffers.buffering() as count:
        count(100)
