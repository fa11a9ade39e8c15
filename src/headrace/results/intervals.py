"""Intervals as text, in the words of Spark's own CAST(… AS STRING)."""

from __future__ import annotations

_SECOND = 1_000_000
_UNITS = ("day", "hour", "minute", "second")
_LENGTHS = {"day": 86_400 * _SECOND, "hour": 3600 * _SECOND, "minute": 60 * _SECOND}
_SEPARATORS = {"hour": " ", "minute": ":", "second": ":"}


def year_month_text(months: int, sql: str) -> str:
    """E.g. `INTERVAL '1-2' YEAR TO MONTH`; `sql` is the type, which names the units shown."""
    units = sql.removeprefix("interval ")
    sign, months = ("-", -months) if months < 0 else ("", months)
    shown = {
        "year to month": f"{months // 12}-{months % 12}",
        "year": f"{months // 12}",
        "month": f"{months}",
    }[units]
    return f"INTERVAL '{sign}{shown}' {units.upper()}"


def day_time_text(micros: int, sql: str) -> str:
    """E.g. `INTERVAL '1 02:03:04.5' DAY TO SECOND`; `sql` is the type."""
    units = sql.removeprefix("interval ")
    first, _, last = units.partition(" to ")
    shown = _UNITS[_UNITS.index(first) : _UNITS.index(last or first) + 1]
    text, rest = "-" if micros < 0 else "", abs(micros)
    for unit in shown:
        text += _SEPARATORS[unit] if unit != first else ""
        if unit == "second":
            text += _seconds(rest).zfill(2) if rest >= 10 * _SECOND else "0" + _seconds(rest)
            continue
        count, rest = divmod(rest, _LENGTHS[unit])
        text += str(count) if unit == "day" else f"{count:02}"
    return f"INTERVAL '{text}' {units.upper()}"


def calendar_text(months: int, days: int, micros: int) -> str:
    """E.g. `1 years 2 months 3 days 4 hours 5.5 seconds`."""
    years, months = _towards_zero(months, 12)
    hours, micros = _towards_zero(micros, _LENGTHS["hour"])
    minutes, micros = _towards_zero(micros, _LENGTHS["minute"])
    counts = [(years, "years"), (months, "months"), (days, "days")]
    counts += [(hours, "hours"), (minutes, "minutes")]
    words = [f"{count} {unit}" for count, unit in counts if count]
    if micros:
        words.append(f"{'-' if micros < 0 else ''}{_seconds(abs(micros))} seconds")
    return " ".join(words) or "0 seconds"


def _towards_zero(count: int, unit: int) -> tuple[int, int]:
    whole = abs(count) // unit * (-1 if count < 0 else 1)
    return whole, count - whole * unit


def _seconds(micros: int) -> str:
    whole, fraction = divmod(micros, _SECOND)
    return f"{whole}.{fraction:06}".rstrip("0").rstrip(".")
