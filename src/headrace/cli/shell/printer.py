"""Output of the results of the shell: the pager, and the time of each phase."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from headrace.cli.output.formats import OutputFormat
from headrace.cli.result_printer import ResultPrinter
from headrace.cli.shell.pager import PagedStream
from headrace.cli.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.text.times import describe_duration

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
            self._shell_terminal.warn(describe_phases(statement))


def describe_phases(statement: Json) -> str:
    """Return how long a statement waited, started and ran, and its total time."""
    parts = []
    for name, begin, end in _PHASES:
        seconds = _seconds_between(statement.get(begin), statement.get(end))
        if seconds is not None:
            parts.append(f"{name} {describe_duration(seconds)}")
    total = _seconds_between(statement.get("created_at"), statement.get("ended_at"))
    if total is not None:
        parts.append(f"total {describe_duration(total)}")
    return "Time: " + " · ".join(parts)


def _seconds_between(begin: str | None, end: str | None) -> float | None:
    if begin is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
