"""Dates and times as ISO 8601 text, in any year that Spark can hold.

Years are those of the proleptic Gregorian calendar, 0 being the one before 1. Years after 9999
carry a plus sign, those before 0 a minus sign, as ISO 8601 and Spark write them.
"""

from __future__ import annotations

_DAYS_PER_ERA = 146_097
_SECONDS_PER_DAY = 86_400


def date_text(days: int) -> str:
    """The date so many days after 1970-01-01."""
    # H. Hinnant, "chrono-Compatible Low-Level Date Algorithms": civil_from_days. Years begin in
    # March there, so that the leap day is the last of its year; an era is 400 years.
    era, day_of_era = divmod(days + 719_468, _DAYS_PER_ERA)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // (_DAYS_PER_ERA - 1)
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def instant_text(count: int, per_second: int) -> str:
    """The date and time so many microseconds (or nanoseconds) after 1970-01-01T00:00:00."""
    days, rest = divmod(count, _SECONDS_PER_DAY * per_second)
    return f"{date_text(days)}T{_clock(rest, per_second)}"


def time_text(micros: int) -> str:
    """The time of day so many microseconds after midnight."""
    return _clock(micros, 1_000_000)


def _clock(count: int, per_second: int) -> str:
    seconds, fraction = divmod(count, per_second)
    hours, rest = divmod(seconds, 3600)
    digits = len(str(per_second)) - 1
    return f"{hours:02}:{rest // 60:02}:{rest % 60:02}.{fraction:0{digits}}"
