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


_SECOND = 1_000_000
_UNITS = ("day", "hour", "minute", "second")
_MICROSECONDS = {"day": 86_400 * _SECOND, "hour": 3600 * _SECOND, "minute": 60 * _SECOND}
_SEPARATORS = {"hour": " ", "minute": ":", "second": ":"}


def format_year_month(months: int, sql: str) -> str:
    """Format a year-month interval, for example `INTERVAL '1-2' YEAR TO MONTH`.

    `sql` is the SQL type, which names the units.
    """
    units = sql.removeprefix("interval ")
    sign, months = ("-", -months) if months < 0 else ("", months)
    text = {
        "year to month": f"{months // 12}-{months % 12}",
        "year": f"{months // 12}",
        "month": f"{months}",
    }[units]
    return f"INTERVAL '{sign}{text}' {units.upper()}"


def format_day_time(micros: int, sql: str) -> str:
    """Format a day-time interval, for example `INTERVAL '1 02:03:04.5' DAY TO SECOND`.

    `sql` is the SQL type, which names the units.
    """
    units = sql.removeprefix("interval ")
    first, _, last = units.partition(" to ")
    fields = _UNITS[_UNITS.index(first) : _UNITS.index(last or first) + 1]
    text, rest = "-" if micros < 0 else "", abs(micros)
    for unit in fields:
        text += _SEPARATORS[unit] if unit != first else ""
        if unit == "second":
            text += "" if rest >= 10 * _SECOND else "0"
            text += _format_seconds(rest)
            continue
        count, rest = divmod(rest, _MICROSECONDS[unit])
        text += str(count) if unit == "day" else f"{count:02}"
    return f"INTERVAL '{text}' {units.upper()}"


def format_calendar(months: int, days: int, micros: int) -> str:
    """Format a calendar interval, for example `1 years 2 months 3 days 4 hours 5.5 seconds`."""
    years, months = _divide_towards_zero(months, 12)
    hours, micros = _divide_towards_zero(micros, _MICROSECONDS["hour"])
    minutes, micros = _divide_towards_zero(micros, _MICROSECONDS["minute"])
    counts = [(years, "years"), (months, "months"), (days, "days")]
    counts += [(hours, "hours"), (minutes, "minutes")]
    texts = [f"{count} {unit}" for count, unit in counts if count]
    if micros:
        texts.append(f"{'-' if micros < 0 else ''}{_format_seconds(abs(micros))} seconds")
    return " ".join(texts) or "0 seconds"


def _divide_towards_zero(count: int, unit: int) -> tuple[int, int]:
    """Return quotient and remainder, both with the sign of `count`, as Spark divides."""
    quotient = abs(count) // unit * (-1 if count < 0 else 1)
    return quotient, count - quotient * unit


def _format_seconds(micros: int) -> str:
    whole, fraction = divmod(micros, _SECOND)
    return f"{whole}.{fraction:06}".rstrip("0").rstrip(".")
