"""The streams of a command: data on standard output, everything else on standard error.

What a command prints can come from anywhere: a result, a driver, or a server that is not a node.
`EscapingStream` is the one place that keeps control sequences in it from reaching a terminal.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO, cast

from headrace.cli.output.styled import ERASE_LINE, StyledText, WrappedStream
from headrace.cli.support.errors import ErrorPrinter
from headrace.text.printable import escape_controls


class EscapingStream(WrappedStream):
    """A text stream that escapes control characters, except in text that the shell has styled."""

    def write(self, text: str) -> int:
        return self._stream.write(text if isinstance(text, StyledText) else escape_controls(text))


@dataclass(frozen=True, slots=True)
class Terminal:
    """The output streams of a command and how much it prints on them."""

    out: TextIO
    err: TextIO
    quiet: bool
    debug: bool
    verbose: bool = False
    """Whether footers show the ids of statements."""
    connection_flags: str = ""
    """The flags --server and --home of this command, which another command needs too."""

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

    def suggest(self, *arguments: str) -> str:
        """Return a command that uses the same node, for a message."""
        return " ".join(["headrace", *arguments]) + self.connection_flags

    def info(self, text: str, *, replaces_progress: bool = False) -> None:
        """Print a line on standard error if it is a terminal and --quiet is not set."""
        if self.interactive and replaces_progress:
            self.err.write(ERASE_LINE)
        if self.interactive:
            self.warn(text)

    def notice(self, text: str) -> None:
        """Print a line on standard error unless --quiet is set. It replaces a progress line."""
        if self.interactive:
            self.err.write(ERASE_LINE)
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print a line on standard error, even with --quiet."""
        self.err.write(text + "\n")
        self.err.flush()


def open_terminal(
    *, quiet: bool, debug: bool, verbose: bool = False, connection_flags: str = ""
) -> Terminal:
    """Return the streams of this process.

    A stream that is not a terminal is set to UTF-8 with LF as line end. Data for a pipe or a file
    stays as it is; messages are escaped there too, because a terminal may show the file later.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    out = _escape(sys.stdout) if sys.stdout.isatty() else sys.stdout
    return Terminal(out, _escape(sys.stderr), quiet, debug, verbose, connection_flags)


def _escape(stream: TextIO) -> TextIO:
    return cast("TextIO", EscapingStream(stream))


def _shows_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
