"""The time of each group of tests, which the summary of a run shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.support.groups import group_of

if TYPE_CHECKING:
    import pytest

_SHOWN_SECONDS = 10.0
_seconds: Counter[str] = Counter()
_counts: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the time of a test, or of its set-up or tear-down."""
    group = group_of(report.nodeid)
    _seconds[group] += report.duration
    _counts[group] += report.when == "call"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the groups that took longest. Groups run in parallel."""
    slow = [group for group, seconds in _seconds.most_common() if seconds >= _SHOWN_SECONDS]
    if len(_seconds) > 1 and slow:
        terminalreporter.section("time of each group of tests")
        for group in slow:
            terminalreporter.write_line(f"{_seconds[group]:7.0f} s {_counts[group]:5}  {group}")
