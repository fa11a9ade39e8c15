"""The streams of a command: data on standard output, everything else on standard error."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO

from headrace.cli.errors import ErrorPrinter


@dataclass(frozen=True, slots=True)
class Terminal:
    """The output streams of a command and how much it prints on them."""

    out: TextIO
    err: TextIO
    quiet: bool
    debug: bool

    @property
    def colour(self) -> bool:
        """True if standard output shows colours."""
        return _shows_colour(self.out)

    @property
    def interactive(self) -> bool:
        """True if progress and footers are shown: standard error is a terminal, without --quiet."""
        return self.err.isatty() and not self.quiet

    @property
    def errors(self) -> ErrorPrinter:
        """Printer of errors on standard error."""
        return ErrorPrinter(self.err, colour=_shows_colour(self.err), debug=self.debug)

    def info(self, text: str) -> None:
        """Print a line on standard error if it is a terminal and --quiet is not set."""
        if self.interactive:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print a line on standard error, even with --quiet."""
        self.err.write(text + "\n")
        self.err.flush()


def open_terminal(*, quiet: bool, debug: bool) -> Terminal:
    """Return the streams of this process.

    A stream that is not a terminal is set to UTF-8 with LF as line end.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    return Terminal(sys.stdout, sys.stderr, quiet, debug)


def _shows_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
