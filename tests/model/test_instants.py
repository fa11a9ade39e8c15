"""Dates and times as ISO 8601 text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.instants import format_date, format_instant, format_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@settings(deadline=None)
@given(st.dates())
def test_dates_of_years_with_four_digits_are_as_in_python(day: date) -> None:
    assert format_date((day - _EPOCH.date()).days) == day.isoformat()


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_of_years_with_four_digits_are_as_in_python(moment: datetime) -> None:
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    expected = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    assert format_instant(micros, 1_000_000) == expected
    assert format_instant(micros * 1000 + 7, 1_000_000_000) == f"{expected}007"


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
def test_dates_of_other_years_have_a_sign(days: int, text: str) -> None:
    assert format_date(days) == text


def test_first_and_last_instant_of_spark_are_formatted() -> None:
    assert format_instant(2**63 - 1, 1_000_000) == "+294247-01-10T04:00:54.775807"
    assert format_instant(-(2**63), 1_000_000) == "-290308-12-21T19:59:05.224192"
    assert format_time(86_399_999_999) == "23:59:59.999999"
