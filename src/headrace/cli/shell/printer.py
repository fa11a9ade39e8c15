"""Output of the results of the shell: the pager, and the time of each phase."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support.result_printer import ResultPrinter
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.text.readable import describe_duration

_DEFAULT_PAGER = "less"
_LESS_FLAGS = "-SRX"
"""Do not wrap lines, show colours, and leave the text on the screen."""
_RESERVED_LINES = 3
"""Lines of the screen that the footer and the next prompt need."""


def pager_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command line of the user's pager; empty if there is none."""
    try:
        words = shlex.split(environ.get("PAGER", _DEFAULT_PAGER))
    except ValueError:
        return []
    return words if words and shutil.which(words[0]) else []


class PagedStream(io.TextIOBase):
    """A terminal stream that continues in a pager after one screen of lines.

    The pager starts when the text exceeds the screen, so that short results need no key press. If
    the user quits the pager, the next write raises BrokenPipeError.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.enabled = True
        self._stream = stream
        self._held: list[str] = []
        self._held_lines = 0
        self._pager: subprocess.Popen[str] | None = None
        self._passes_through = True
        self._sigint_handler: Any = signal.SIG_DFL
        """Handler of Ctrl-C before the pager began."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def begin(self) -> None:
        """Hold the following text back until it is clear whether it fits on the screen."""
        self._passes_through = not self.enabled

    def write(self, text: str) -> int:
        if self._passes_through:
            return self._stream.write(text)
        if self._pager is not None:
            return self._feed(self._pager, text)
        self._held.append(text)
        self._held_lines += text.count("\n")
        if self._held_lines > shutil.get_terminal_size().lines - _RESERVED_LINES:
            self._start_pager()
        return len(text)

    def flush(self) -> None:
        if self._passes_through:
            self._stream.flush()

    def end(self) -> None:
        """Write what was held back, or wait until the user has left the pager."""
        pager, self._pager = self._pager, None
        if pager is not None:
            try:
                _wait_for_exit(pager)
            finally:
                signal.signal(signal.SIGINT, self._sigint_handler)
        self._release()

    def _start_pager(self) -> None:
        command = pager_command()
        if not command:
            self._release()
            return
        self._stream.flush()
        self._pager = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._stream.fileno(),
            env={"LESS": _LESS_FLAGS, **os.environ},
            encoding="utf-8",
            errors="backslashreplace",
        )
        # Ctrl-C belongs to the pager until its end. The child must not inherit that it is ignored.
        self._sigint_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        held = "".join(self._held)
        self._held.clear()
        self._feed(self._pager, held)

    def _feed(self, pager: subprocess.Popen[str], text: str) -> int:
        assert pager.stdin is not None
        return pager.stdin.write(text)

    def _release(self) -> None:
        self._stream.write("".join(self._held))
        self._stream.flush()
        self._held.clear()
        self._held_lines = 0
        self._passes_through = True


def _wait_for_exit(pager: subprocess.Popen[str]) -> None:
    """Close the input of a pager and wait for its end."""
    with contextlib.suppress(BrokenPipeError):
        assert pager.stdin is not None
        pager.stdin.close()
    pager.wait()


_PHASES = (
    ("waiting", "created_at", "launched_at"),
    ("starting", "launched_at", "started_at"),
    ("running", "started_at", "ended_at"),
)


@dataclass(slots=True)
class Display:
    r"""How results are shown. Commands such as `\x` change it."""

    default_format: OutputFormat | None
    """Format that the flag, the environment or the file sets; None chooses one for each result."""
    vertical: str = "auto"
    """`on`, `off` or `auto`."""
    timing: bool = False
    output_file: TextIO | None = None
    output_file_format: OutputFormat | None = None

    @property
    def format(self) -> OutputFormat | None:
        """Format of the next result; None selects the default of a terminal."""
        if self.output_file is not None:
            return self.output_file_format
        if self.vertical == "auto":
            return self.default_format
        return OutputFormat.VERTICAL if self.vertical == "on" else OutputFormat.TABLE


class ShellPrinter(ResultPrinter):
    """Prints the results of one input."""

    _more_rows_hint = "start the shell with a higher --row-limit"
    _whole_values_hint = "Type \\x on, and repeat the statement, to see whole values."

    def __init__(
        self, client: Client, terminal: Terminal, display: Display, pager: PagedStream | None
    ) -> None:
        super().__init__(client, terminal, display.format)
        self._shell_terminal = terminal
        self._timing = display.timing
        self._pager = pager

    def print_result(self, statement: Json) -> None:
        """Print the rows. If the user leaves the pager early, the other rows are not read."""
        if self._pager is None:
            super().print_result(statement)
            return
        self._pager.begin()
        try:
            super().print_result(statement)
        except BrokenPipeError:
            pass
        finally:
            self._pager.end()

    def print_footer(self, statement: Json) -> None:
        """Print the footer and, if timing is on, the time of each phase."""
        super().print_footer(statement)
        if self._timing:
            self._shell_terminal.warn(describe_phases(statement, self.client_seconds))


def describe_phases(statement: Json, client_seconds: float | None) -> str:
    """Return how long a statement waited, started and ran, and its total time.

    Args:
        client_seconds: Time from the submit until the client had the end of the statement and its
            first rows. What the other phases do not explain is shown as `answering`.
    """
    parts = []
    for name, begin, end in _PHASES:
        seconds = _seconds_between(statement.get(begin), statement.get(end))
        if seconds is not None:
            parts.append(f"{name} {describe_duration(seconds)}")
    total = _seconds_between(statement.get("created_at"), statement.get("ended_at"))
    if total is not None and client_seconds is not None and client_seconds > total:
        parts.append(f"answering {describe_duration(client_seconds - total)}")
        total = client_seconds
    if total is not None:
        parts.append(f"total {describe_duration(total)}")
    return "Time: " + " · ".join(parts)


def _seconds_between(begin: str | None, end: str | None) -> float | None:
    if begin is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
