"""Errors on standard error: a line with the message, then the user's SQL with a caret."""

from __future__ import annotations

from typing import TextIO

from headrace.cli.output.styled import paint
from headrace.cli.output.text import display_width
from headrace.cli.support.script import Source, SourceStatement
from headrace.client.http import Json
from headrace.errors import HeadraceError, Position
from headrace.text.printable import escape_controls

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
