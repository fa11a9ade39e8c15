"""Intervals as text."""

from __future__ import annotations

import pytest

from headrace.model.instants import format_calendar, format_day_time, format_year_month


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
def test_year_month_intervals_are_as_in_spark(months: int, kind: str, text: str) -> None:
    assert format_year_month(months, f"interval {kind}") == f"INTERVAL '{text}' {kind.upper()}"


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
def test_day_time_intervals_are_as_in_spark(micros: int, kind: str, text: str) -> None:
    assert format_day_time(micros, f"interval {kind}") == f"INTERVAL '{text}' {kind.upper()}"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((0, 0, 0), "0 seconds"),
        ((14, -3, 0), "1 years 2 months -3 days"),
        ((-1, 0, -3_661_500_000), "-1 months -1 hours -1 minutes -1.5 seconds"),
        ((0, 0, 1), "0.000001 seconds"),
    ],
)
def test_calendar_intervals_are_as_in_spark(parts: tuple[int, int, int], text: str) -> None:
    assert format_calendar(*parts) == text
