"""Dates, times and intervals as text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.results.instants import date_text, instant_text, time_text
from headrace.results.intervals import calendar_text, day_time_text, year_month_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@settings(deadline=None)
@given(st.dates())
def test_dates_within_four_digits(day: date) -> None:
    assert date_text((day - _EPOCH.date()).days) == day.isoformat()


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_within_four_digits(moment: datetime) -> None:
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    expected = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    assert instant_text(micros, 1_000_000) == expected
    assert instant_text(micros * 1000 + 7, 1_000_000_000) == f"{expected}007"


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (2_932_897, "+10000-01-01"),
        (-719_163, "0000-12-31"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (-735_525, "-0044-03-15"),
        (2_147_483_647, "+5881580-07-11"),
        (-2_147_483_648, "-5877641-06-23"),
    ],
)
def test_dates_beyond(days: int, text: str) -> None:
    assert date_text(days) == text


def test_ends_of_what_spark_can_hold() -> None:
    assert instant_text(2**63 - 1, 1_000_000) == "+294247-01-10T04:00:54.775807"
    assert instant_text(-(2**63), 1_000_000) == "-290308-12-21T19:59:05.224192"
    assert time_text(86_399_999_999) == "23:59:59.999999"


@pytest.mark.parametrize(
    ("months", "kind", "text"),
    [
        (14, "year to month", "1-2"),
        (-14, "year to month", "-1-2"),
        (-24, "year", "-2"),
        (0, "month", "0"),
        (-(2**31), "year to month", "-178956970-8"),
    ],
)
def test_year_month_intervals(months: int, kind: str, text: str) -> None:
    assert year_month_text(months, f"interval {kind}") == f"INTERVAL '{text}' {kind.upper()}"


@pytest.mark.parametrize(
    ("micros", "kind", "text"),
    [
        (93_784_500_000, "day to second", "1 02:03:04.5"),
        (-93_784_500_000, "hour to second", "-26:03:04.5"),
        (7_000_000, "minute to second", "00:07"),
        (0, "second", "00"),
        (12_000_001, "second", "12.000001"),
        (86_400_000_000, "day", "1"),
        (90_000_000_000, "day to hour", "1 01"),
        (3_660_000_000, "hour to minute", "01:01"),
        (-(2**63), "day to second", "-106751991 04:00:54.775808"),
    ],
)
def test_day_time_intervals(micros: int, kind: str, text: str) -> None:
    assert day_time_text(micros, f"interval {kind}") == f"INTERVAL '{text}' {kind.upper()}"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((0, 0, 0), "0 seconds"),
        ((14, -3, 0), "1 years 2 months -3 days"),
        ((-1, 0, -3_661_500_000), "-1 months -1 hours -1 minutes -1.5 seconds"),
        ((0, 0, 1), "0.000001 seconds"),
    ],
)
def test_calendar_intervals(parts: tuple[int, int, int], text: str) -> None:
    assert calendar_text(*parts) == text
