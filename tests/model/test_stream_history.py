"""Sums of batches: what any driver can report stays within their bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.running_query import make_batch

from headrace.model.stream_history import (
    LARGEST,
    LATEST,
    MAX_SUM,
    SUMS,
    BatchPart,
    QueryMinute,
    join_minutes,
    parse_instant,
    summarize_batches,
)
from headrace.model.stream_query import QueryProgress
from headrace.model.text import MAX_BIGINT

_COUNTS = st.integers(0, MAX_BIGINT)
_TEXTS = st.one_of(st.text(max_size=30), st.datetimes().map(datetime.isoformat))
_LAGS = st.dictionaries(
    st.text(max_size=5),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(-1e300, 1e300), st.text()),
    max_size=4,
)


@given(
    st.lists(
        st.builds(
            QueryProgress,
            batch=_COUNTS,
            at=_TEXTS,
            input_rows=_COUNTS,
            input_rate=st.just(0.0),
            process_rate=st.just(0.0),
            milliseconds=_COUNTS,
            parts=st.dictionaries(st.sampled_from([*BatchPart, "other"]), _COUNTS),
            watermark=st.none() | _TEXTS,
            state_rows=_COUNTS,
            state_bytes=_COUNTS,
            lag=_LAGS,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_no_batch_leaves_the_bounds_of_a_minute(batches: list[QueryProgress]) -> None:
    minute = summarize_batches(batches)
    assert minute.batches == len(batches)
    for name in (*SUMS, *LARGEST, *LATEST):
        value = getattr(minute, name)
        assert value is None or (isinstance(value, int) and 0 <= value <= MAX_SUM)
        assert value is not None or name in LARGEST
    assert (minute.state_rows, minute.state_bytes) == (
        min(batches[-1].state_rows, MAX_SUM),
        min(batches[-1].state_bytes, MAX_SUM),
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"add_batch": -1},
        {"add_batch": 2**63},
        {"add_batch": 1.5},
        {"add_batch": None},
        {"a" * 2000: 1},
        {f"part{number}": 1 for number in range(21)},
        [],
    ],
    ids=["negative", "too large", "fraction", "none", "long name", "too many", "list"],
)
def test_parts_that_no_batch_has_are_refused(parts: Any) -> None:
    with pytest.raises(ValidationError):
        QueryProgress(**{**make_batch(1).model_dump(), "parts": parts})


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-01T00:00:00.000Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("", None),
        (None, None),
        ("2026-13-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1969-12-31T23:59:59Z", None),
        ("2200-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
    ],
    ids=[
        *("Spark's", "another zone", "no zone", "empty", "none", "no month"),
        *("first", "before 1970", "after 2199", "before the calendar", "after the calendar"),
    ],
)
def test_an_instant_of_a_driver_is_read_if_it_is_one(
    text: str | None, instant: datetime | None
) -> None:
    assert parse_instant(text) == instant


def make_minute(minute: int, **values: Any) -> QueryMinute:
    zeros = dict.fromkeys((*SUMS, *LATEST), 0) | dict.fromkeys(LARGEST)
    return QueryMinute(**{**zeros, "slowest_milliseconds": 0, "minute": minute, **values})


def test_minutes_of_attempts_are_joined_in_order() -> None:
    minutes = [
        make_minute(7, input_rows=1, backlog=3, state_rows=9),
        make_minute(8, input_rows=2),
        make_minute(6, input_rows=4),
        make_minute(7, input_rows=8, slowest_milliseconds=5, state_rows=1),
    ]
    joined = join_minutes(minutes)
    assert [(each.minute, each.input_rows) for each in joined] == [(6, 4), (7, 9), (8, 2)]
    assert (joined[1].backlog, joined[1].slowest_milliseconds, joined[1].state_rows) == (3, 5, 1)


@pytest.mark.parametrize(
    ("passed", "seconds"), [(-5, 1), (0, 1), (30, 30), (60, 60), (900, 60)], ids=str
)
def test_a_rate_counts_the_time_of_a_minute_that_has_passed(passed: int, seconds: float) -> None:
    minute = make_minute(100)
    assert minute.count_seconds(minute.at + timedelta(seconds=passed)) == seconds
