from __future__ import annotations

import pytest

from headrace.cli.durations import format_age, format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.004, "0.00 s"),
        (0.12, "0.12 s"),
        (2.64, "2.6 s"),
        (65, "1 min 5 s"),
        (7200, "2 h"),
        (7320.5, "2 h 2 min"),
        (90_061, "1 d 1 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_an_age_has_whole_seconds() -> None:
    assert [format_age(seconds) for seconds in (-1, 0.9, 59.9)] == ["0 s", "0 s", "59 s"]
