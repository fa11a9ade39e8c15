from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250us", 0.00025),
        ("20ms", 0.02),
        ("10s", 10),
        ("5 min", 300),
        ("5m", 300),
        ("1.5h", 5400),
        (" 2d ", 172800),
        ("0s", 0),
    ],
)
def test_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value", [10, "10", "", "s", "-1s", "1 week", "1s2", "1e3s", None, 1.5, "10S"]
)
def test_anything_else_is_refused_with_what_is_allowed(value: object) -> None:
    with pytest.raises(ValueError, match="a number and a unit"):
        parse_duration(value)


def test_more_than_python_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration("9999999999999d")


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_what_is_written_is_read_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
