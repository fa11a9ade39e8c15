"""Durations as users write them and as Headrace shows them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.text.durations import LONGEST_DURATION, format_duration, parse_duration


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
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("value", ["", "s", "-1s", "1 week", "1s2", "1e3s", None, "10S"])
def test_other_values_are_refused_with_an_example_and_the_units(value: object) -> None:
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration(value)
    assert str(refused.value) == (
        f"{value!r} is not a duration. Write a number and a unit, for example 10s."
        " Units: us, ms, s, m, min, h, d"
    )


@pytest.mark.parametrize(("value", "example"), [("10", "10s"), (10, "10s"), (1.5, "1.5s")])
def test_a_number_without_a_unit_is_refused_with_the_number_as_the_example(
    value: object, example: str
) -> None:
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration(value)
    assert str(refused.value) == (
        f"{value!r} is not a duration. Add a unit, for example {example}."
        " Units: us, ms, s, m, min, h, d"
    )


@pytest.mark.parametrize("text", ["9999999999999d", "9" * 400 + "s"])
def test_a_duration_that_python_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(minutes=30), "30m"),
        (timedelta(seconds=90), "90s"),
        (timedelta(hours=1), "1h"),
        (timedelta(hours=24), "1d"),
        (timedelta(hours=36), "36h"),
        (timedelta(milliseconds=500), "500ms"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(seconds=1, microseconds=1), "1000001us"),
    ],
)
def test_a_duration_is_shown_in_the_largest_unit_that_divides_it(
    duration: timedelta, text: str
) -> None:
    assert format_duration(duration) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_a_formatted_duration_is_read_back_exactly(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(
    st.integers(0, 5000),
    st.sampled_from(["microseconds", "milliseconds", "seconds", "minutes", "hours", "days"]),
)
def test_durations_of_whole_units_are_read_back_exactly(count: int, unit: str) -> None:
    duration = timedelta(**{unit: count})
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.finding("S5")
@pytest.mark.parametrize(
    "text", ["36526d", "876601h", "999999999d", "9" * 400 + "s", "9" * 5000 + "d"]
)
def test_a_duration_of_more_than_100_years_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is too long.*36525d") as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 200


def test_a_duration_of_100_years_is_allowed() -> None:
    assert parse_duration("36525d") == LONGEST_DURATION


def test_a_timedelta_is_bounded_as_well() -> None:
    with pytest.raises(ValueError, match="is too long"):
        parse_duration(LONGEST_DURATION + timedelta(microseconds=1))
