"""What a statement is doing, redrawn on one line of a terminal's standard error."""

from __future__ import annotations

import time
from typing import Any, TextIO

from headrace.client.http import Json

REDRAW = 0.5
"""Seconds between two drawings, at least."""
_NOT_YET = 99
"""A statement that still runs is never done."""
_CLEAR = "\r\x1b[2K"

_WAITING = {
    "not_started": "the session's driver is about to start",
    "starting": "the session's driver is starting",
    "recovering": "the session's driver is being rebuilt",
    "running": "an earlier statement of the session is running",
}


class ProgressLine:
    """Draws only where there is somebody to see it."""

    def __init__(self, out: TextIO, *, enabled: bool) -> None:
        self._out = out
        self.enabled = enabled
        self._begun = time.monotonic()
        self._drawn = False

    def show(self, statement: Json, session_state: str | None = None) -> None:
        if not self.enabled:
            return
        elapsed = time.monotonic() - self._begun
        text = describe(statement, session_state, elapsed)
        self._out.write(_CLEAR + text)
        self._out.flush()
        self._drawn = True

    def clear(self) -> None:
        """Leave the line empty for what comes next."""
        if self._drawn:
            self._out.write(_CLEAR)
            self._out.flush()
            self._drawn = False


def describe(statement: Json, session_state: str | None, elapsed: float) -> str:
    """One line: state, seconds, and how far it is or why it waits."""
    parts = [statement["state"], f"{elapsed:.0f} s"]
    if statement["state"] == "waiting" and session_state in _WAITING:
        parts.append(_WAITING[session_state])
    share = percent(statement.get("progress"))
    if share is not None:
        parts.append(f"{share} %")
    parts += counts(statement.get("progress"))
    return " · ".join(parts)


def counts(progress: Any) -> list[str]:
    """What has been read so far, in words; nothing when it is not known."""
    if not isinstance(progress, dict):
        return []
    rows, size = progress.get("rows_read", 0), progress.get("bytes_read", 0)
    words = []
    if rows:
        words.append(f"{rows:,} rows read")
    if size:
        words.append(_size(size))
    return words


def _size(count: float) -> str:
    """Bytes in binary units, e.g. `1.5 MiB`."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while count >= 1024 and unit != "TiB":
        count, unit = count / 1024, next(units)
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def percent(progress: Any) -> int | None:
    """How much of a statement's tasks are done, at most 99 while it runs; None when unknown."""
    if not isinstance(progress, dict):
        return None
    done, total = progress.get("tasks_done"), progress.get("tasks_total")
    if not isinstance(done, int) or not isinstance(total, int) or total <= 0:
        return None
    return min(_NOT_YET, max(0, 100 * done // total))
