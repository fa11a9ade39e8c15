"""The progress line of a statement, redrawn on standard error if that is a terminal."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from headrace.client.http import Json
from headrace.text.readable import (
    describe_bytes,
    describe_count,
    describe_duration,
    escape_controls,
)

if TYPE_CHECKING:
    from rich.live import Live

REDRAW_SECONDS = 0.5
"""Shortest time between two drawings."""
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
        self._start: float | None = None
        self._live: Live | None = None

    def draw(self, statement: Json, session_state: str | None = None) -> None:
        """Replace the line by the current progress.

        Args:
            session_state: State of the session, which explains why a statement waits.
        """
        if not self.enabled:
            return
        if self._start is None:
            self._start = time.monotonic() - _seconds_since_submit(statement)
        elapsed = time.monotonic() - self._start
        self._show(describe_progress(statement, session_state, elapsed))

    def erase(self) -> None:
        """Remove the line from the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self, text: str) -> None:
        # rich takes 0.07 s to import. A statement that has ended by then needs no progress.
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        from headrace.cli.output.terminal_list import open_console  # noqa: PLC0415

        line = Text(escape_controls(text), no_wrap=True, overflow="ellipsis")
        if self._live is None:
            self._live = Live(
                console=open_console(self._out),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(line, refresh=True)


def describe_progress(statement: Json, session_state: str | None, elapsed: float) -> str:
    """Return one line with state, seconds since the submit, and progress or why it waits."""
    parts = [statement["state"], describe_duration(int(elapsed))]
    if isinstance(reason := statement.get("waiting_for"), dict):
        parts.append(str(reason["text"]).rstrip("."))
    elif statement["state"] == "waiting" and session_state in _WAIT_REASONS:
        parts.append(_WAIT_REASONS[session_state])
    parts += format_tasks(statement.get("progress"))
    parts += format_counts(statement.get("progress"))
    return " · ".join(parts)


def format_counts(progress: Any) -> list[str]:
    """Return how many rows and bytes have been read; empty if neither is known."""
    if not isinstance(progress, dict):
        return []
    rows, size = progress.get("rows_read", 0), progress.get("bytes_read", 0)
    parts = []
    if rows:
        parts.append(f"{describe_count(rows, 'row')} read")
    if size:
        parts.append(describe_bytes(size))
    return parts


def format_tasks(progress: Any) -> list[str]:
    """Return how many tasks have ended; empty if Spark runs none.

    Spark adds jobs as a statement runs, so that a percentage would decrease.
    """
    if not isinstance(progress, dict):
        return []
    done, total = progress.get("tasks_done"), progress.get("tasks_total")
    return [f"{done:,} of {total:,} tasks"] if isinstance(done, int) and total else []


def _seconds_since_submit(statement: Json) -> float:
    """Return the age of a statement; 0 if the clocks of node and command differ that much."""
    created = datetime.fromisoformat(statement["created_at"])
    return max(0.0, (datetime.now(UTC) - created).total_seconds())
