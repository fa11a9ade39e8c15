"""The streams of a command: data on standard output, everything else on standard error.

What a command prints can come from anywhere: a result, a driver, or a server that is not a node.
`EscapingStream` is the one place that keeps control sequences in it from reaching a terminal.

An error is a line with the message, then the line of the SQL of the user with a caret.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO, cast

from headrace.cli.output.text import ERASE_LINE, StyledText, WrappedStream, display_width, paint
from headrace.cli.support.script import Source, SourceStatement
from headrace.client.http import Json
from headrace.errors import HeadraceError, Position
from headrace.text.readable import escape_controls

_LISTS = {
    "session_not_found": (
        "headrace session list shows your sessions; name one that has ended by its id"
    ),
    "stream_not_found": "headrace stream list --all shows your streaming queries",
    "job_not_found": "headrace job list shows your jobs",
    "node_not_found": "headrace node list shows the nodes",
}
"""Hints for objects that do not exist, by the code of the error."""
_EXCERPT_LENGTH = 100
"""Characters of a line that are shown around a caret."""


class ErrorPrinter:
    """Prints errors to a stream; with `debug`, including their details."""

    def __init__(self, out: TextIO, *, colour: bool, debug: bool) -> None:
        self._out = out
        self._colour = colour
        self._debug = debug

    def print_error(self, error: HeadraceError, statement: SourceStatement | None = None) -> None:
        """Print an error. Positions in the error refer to `statement`."""
        self._print(error.message, error.position, statement)
        hint = error.hint or _LISTS.get(error.code)
        if hint:
            self._out.write(f"hint: {hint}\n")

    def print_failure(
        self, failure: Json, statement: SourceStatement | None = None, text: str | None = None
    ) -> None:
        """Print the `error` object of a statement.

        Args:
            failure: The error as the API returns it.
            statement: The failed statement, if this command submitted it.
            text: SQL text of the failed statement, if another command submitted it.
        """
        condition = failure.get("condition")
        message = f"[{condition}] {failure['message']}" if condition else failure["message"]
        line, column = failure.get("line"), failure.get("column")
        position = Position(line, column) if line is not None and column is not None else None
        self._print(message, position, statement, text)
        if self._debug and failure.get("trace"):
            self._out.write(f"{failure['trace'].rstrip()}\n")

    def _print(
        self,
        message: str,
        position: Position | None,
        statement: SourceStatement | None = None,
        text: str | None = None,
    ) -> None:
        summary, _, details = message.strip().partition("\n")
        source_line = None
        if position is not None and statement is not None:
            position = statement.locate(position)
            source_line = statement.source.line(position.line)
        elif position is not None and text is not None:
            source_line = Source(None, text).line(position.line)
        self._out.write(paint("error:", "red", colour=self._colour))
        prefix = _location_prefix(statement, position)
        self._out.write(f" {prefix}{summary}{_position_suffix(statement, position)}\n")
        if position is not None and source_line is not None:
            self._out.write(format_excerpt(source_line, position))
        if details and self._debug:
            self._out.write(f"{details.strip()}\n")


def format_excerpt(source_line: str, position: Position) -> str:
    """Return a source line with its number, and a line with a caret below the column.

    Only the part around the caret of a long line is included.
    """
    index = min(position.column - 1, len(source_line))
    begin = 0 if len(source_line) <= _EXCERPT_LENGTH else max(0, index - _EXCERPT_LENGTH // 2)
    part = source_line[begin : begin + _EXCERPT_LENGTH]
    before_caret = part[: index - begin]
    lead, tail = "… " if begin else "", " …" if begin + _EXCERPT_LENGTH < len(source_line) else ""
    gutter = f"{position.line:>4} │ "
    indent = "".join(
        "\t" if char == "\t" else " " * display_width(escape_controls(char))
        for char in before_caret
    )
    caret_gutter = " " * (len(gutter) - 2) + "│ " + " " * len(lead)
    return f"{gutter}{lead}{part}{tail}\n{caret_gutter}{indent}^\n"


def _location_prefix(statement: SourceStatement | None, position: Position | None) -> str:
    """Return `FILE:LINE:COLUMN, statement N: ` for a statement in a file.

    For a statement in an argument, return the number of the statement, except for the first one.
    """
    if statement is None:
        return ""
    if statement.source.name is None:
        return f"statement {statement.number}: " if statement.number > 1 else ""
    location = f"{statement.line}"
    if position is not None:
        location = f"{position.line}:{position.column}"
    return f"{statement.source.name}:{location}, statement {statement.number}: "


def _position_suffix(statement: SourceStatement | None, position: Position | None) -> str:
    if position is None or (statement is not None and statement.source.name is not None):
        return ""
    return f" (line {position.line}, column {position.column})"


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
