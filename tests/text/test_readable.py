"""Text for people: numbers with their nouns, lengths of time. Terminals test the escapes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.text.readable import describe_count, describe_duration, format_utc


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1200, "1,200 rows")],
)
def test_a_noun_follows_its_number(number: int, text: str) -> None:
    assert describe_count(number, "row") == text


def test_a_plural_can_be_any_text() -> None:
    assert describe_count(1, "batch", "batches") == "1 batch"
    assert describe_count(3, "job changes", "jobs change") == "3 jobs change"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.004, "0 s"),
        (0.12, "0.12 s"),
        (0.999, "1 s"),
        (2, "2 s"),
        (2.64, "2.6 s"),
        (59.97, "1 min"),
        (65, "1 min 5 s"),
        (7200, "2 h"),
        (7205, "2 h"),
        (7320.5, "2 h 2 min"),
        (86_405, "1 d"),
        (90_061, "1 d 1 h"),
    ],
)
def test_a_length_of_time_has_at_most_two_units(seconds: float, text: str) -> None:
    assert describe_duration(seconds) == text


_SECONDS = {"d": 86400, "h": 3600, "min": 60, "s": 1}


@given(st.floats(min_value=0, max_value=1e9))
def test_a_length_of_time_is_exact_to_its_last_unit(seconds: float) -> None:
    parts = re.findall(r"([0-9.]+) (d|h|min|s)\b", describe_duration(seconds))
    shown = sum(float(count) * _SECONDS[unit] for count, unit in parts)
    # The second unit of the text is the one below the first.
    units = list(_SECONDS)
    smallest = units[min(units.index(parts[0][1]) + 1, 3)]
    assert abs(seconds - shown) <= _SECONDS[smallest]
    if seconds < 59:
        assert abs(seconds - shown) <= 0.051


def test_messages_show_lengths_of_time_in_this_format_only() -> None:
    """A number that a message formats itself would have another format."""
    package = Path(headrace.__file__).parent
    own_formats = [
        f"{file.relative_to(package)}: {line.strip()}"
        for file in package.rglob("*.py")
        if file.relative_to(package) != Path("text/readable.py")
        for line in file.read_text().splitlines()
        if re.search(r"\{[^{}]*\} (s|sec|seconds|min|minutes|h|hours)\b", line)
    ]
    # An interval of Spark SQL has the units of Spark SQL.
    assert [line for line in own_formats if not line.startswith("model/instants.py")] == []


def test_an_instant_is_in_utc_with_microseconds() -> None:
    assert format_utc(datetime(2026, 11, 21, 10, tzinfo=UTC)) == "2026-11-21T10:00:00.000000Z"
