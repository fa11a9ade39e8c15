"""Intervals as text, in the form of Spark's CAST(… AS STRING)."""

from __future__ import annotations

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
