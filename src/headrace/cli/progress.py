"""The progress line of a statement, redrawn on standard error if that is a terminal."""

from __future__ import annotations

import time
from typing import Any, TextIO

from headrace.cli.output.styled import ERASE_LINE
from headrace.client.http import Json

REDRAW_SECONDS = 0.5
"""Shortest time between two drawings."""
_MAX_PERCENT = 99
"""Upper bound while a statement runs: finished tasks do not mean that the statement has ended."""

_WAIT_REASONS = {
    "not_started": "the session's driver has not been started yet",
    "starting": "the session's driver is starting",
    "recovering": "the session's driver was lost; another one is starting",
    "running": "an earlier statement of the session is running",
}


class ProgressLine:
    """The line that shows the progress of one statement. Does nothing unless enabled."""

    def __init__(self, out: TextIO, *, enabled: bool) -> None:
        self._out = out
        self.enabled = enabled
        self._start = time.monotonic()
        self._visible = False

    def draw(self, statement: Json, session_state: str | None = None) -> None:
        """Replace the line by the current progress.

        Args:
            session_state: State of the session, which explains why a statement waits.
        """
        if not self.enabled:
            return
        elapsed = time.monotonic() - self._start
        text = describe_progress(statement, session_state, elapsed)
        self._out.write(ERASE_LINE)
        self._out.write(text)
        self._out.flush()
        self._visible = True

    def erase(self) -> None:
        """Remove the line from the terminal."""
        if self._visible:
            self._out.write(ERASE_LINE)
            self._out.flush()
            self._visible = False


def describe_progress(statement: Json, session_state: str | None, elapsed: float) -> str:
    """Return one line with state, seconds, and progress or the reason for the wait."""
    parts = [statement["state"], f"{elapsed:.0f} s"]
    if statement["state"] == "waiting" and session_state in _WAIT_REASONS:
        parts.append(_WAIT_REASONS[session_state])
    percent = percent_complete(statement.get("progress"))
    if percent is not None:
        parts.append(f"{percent} %")
    parts += format_counts(statement.get("progress"))
    return " · ".join(parts)


def format_counts(progress: Any) -> list[str]:
    """Return how many rows and bytes have been read; empty if neither is known."""
    if not isinstance(progress, dict):
        return []
    rows, size = progress.get("rows_read", 0), progress.get("bytes_read", 0)
    parts = []
    if rows:
        parts.append(f"{rows:,} rows read")
    if size:
        parts.append(_format_bytes(size))
    return parts


def _format_bytes(count: float) -> str:
    """Return a number of bytes in a binary unit, for example `1.5 MiB`."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while count >= 1024 and unit != "TiB":
        count, unit = count / 1024, next(units)
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def percent_complete(progress: Any) -> int | None:
    """Return the percentage of finished tasks, at most 99; None if it is not known."""
    if not isinstance(progress, dict):
        return None
    done, total = progress.get("tasks_done"), progress.get("tasks_total")
    if not isinstance(done, int) or not isinstance(total, int) or total <= 0:
        return None
    return min(_MAX_PERCENT, max(0, 100 * done // total))
