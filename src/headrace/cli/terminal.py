"""The two streams of a command: data to standard output, everything else to standard error."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO

from headrace.cli.errors import ErrorPrinter


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a command writes to."""

    out: TextIO
    err: TextIO
    quiet: bool
    debug: bool

    @property
    def colour(self) -> bool:
        """Whether standard output takes colours."""
        return _takes_colour(self.out)

    @property
    def narrates(self) -> bool:
        """Whether progress and footers have a reader."""
        return self.err.isatty() and not self.quiet

    @property
    def complaints(self) -> ErrorPrinter:
        return ErrorPrinter(self.err, colour=_takes_colour(self.err), debug=self.debug)

    def tell(self, text: str) -> None:
        """One line of narration, on a terminal only."""
        if self.narrates:
            self.warn(text)

    def warn(self, text: str) -> None:
        """One line that is always told, whatever standard error is."""
        self.err.write(text + "\n")
        self.err.flush()


def open_terminal(*, quiet: bool, debug: bool) -> Terminal:
    """The process's own streams. Data is UTF-8 with bare `\\n` unless a terminal shows it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    return Terminal(sys.stdout, sys.stderr, quiet, debug)


def _takes_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
