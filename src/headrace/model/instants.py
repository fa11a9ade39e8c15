"""Dates and times as ISO 8601 text, for every year that Spark supports.

Years are those of the proleptic Gregorian calendar, in which year 0 precedes year 1. Years after
9999 have a plus sign and years before 0 a minus sign, as in ISO 8601 and in Spark.
"""

from __future__ import annotations

_DAYS_PER_ERA = 146_097
_SECONDS_PER_DAY = 86_400


def format_date(days: int) -> str:
    """Format the date that is `days` days after 1970-01-01."""
    # Algorithm: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days. Its
    # years begin in March, so that a leap day is the last day of its year. An era is 400 years.
    era, day_of_era = divmod(days + 719_468, _DAYS_PER_ERA)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // (_DAYS_PER_ERA - 1)
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def format_instant(count: int, per_second: int) -> str:
    """Format the date and time that is `count` / `per_second` seconds after 1970-01-01T00:00:00.

    `per_second` is 1,000,000 for microseconds and 1,000,000,000 for nanoseconds.
    """
    days, rest = divmod(count, _SECONDS_PER_DAY * per_second)
    return f"{format_date(days)}T{_format_clock(rest, per_second)}"


def format_time(micros: int) -> str:
    """Format the time of day that is `micros` microseconds after midnight."""
    return _format_clock(micros, 1_000_000)


def _format_clock(count: int, per_second: int) -> str:
    seconds, fraction = divmod(count, per_second)
    hours, rest = divmod(seconds, 3600)
    digits = len(str(per_second)) - 1
    return f"{hours:02}:{rest // 60:02}:{rest % 60:02}.{fraction:0{digits}}"
