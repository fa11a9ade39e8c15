"""Errors on standard error: one line, then the place in the user's text with a caret below it."""

from __future__ import annotations

from typing import TextIO

from headrace.cli.output.text import width
from headrace.cli.script import SourceStatement
from headrace.client.http import Json
from headrace.errors import HeadraceError, Position

_RED, _RESET = "\x1b[31m", "\x1b[0m"
_SHOWN = 100
"""Characters of a line that are shown around a caret."""


class ErrorPrinter:
    """Where errors are told, and how much of them."""

    def __init__(self, out: TextIO, *, colour: bool, debug: bool) -> None:
        self._out = out
        self._colour = colour
        self._debug = debug

    def error(self, error: HeadraceError, piece: SourceStatement | None = None) -> None:
        """One of Headrace's errors; `piece` is the statement that it speaks of."""
        self._tell(error.message, error.position, piece)
        if error.hint:
            self._out.write(f"hint: {error.hint}\n")

    def failure(
        self, failure: Json, piece: SourceStatement | None = None, text: str | None = None
    ) -> None:
        """A statement's failure, as the API gives it, in `piece` or else in a text of its own."""
        condition = failure.get("condition")
        message = f"[{condition}] {failure['message']}" if condition else failure["message"]
        line, column = failure.get("line"), failure.get("column")
        position = Position(line, column) if line is not None and column is not None else None
        self._tell(message, position, piece, text)
        if self._debug and failure.get("trace"):
            self._out.write(f"{failure['trace'].rstrip()}\n")

    def _tell(
        self,
        message: str,
        position: Position | None,
        piece: SourceStatement | None = None,
        text: str | None = None,
    ) -> None:
        first, _, more = message.strip().partition("\n")
        source_line = None
        if position is not None and piece is not None:
            position = piece.position(position)
            source_line = piece.source.line(position.line)
        elif position is not None and text is not None:
            source_line = _line(text, position.line)
        label = f"{_RED}error:{_RESET}" if self._colour else "error:"
        self._out.write(f"{label} {_where(piece, position)}{first}{_at(piece, position)}\n")
        if position is not None and source_line is not None:
            self._out.write(excerpt(source_line, position))
        if more and self._debug:
            self._out.write(f"{more.strip()}\n")


def excerpt(source_line: str, position: Position) -> str:
    """The line with its number, and a caret under the column; a long line is shown in part."""
    at = min(position.column - 1, len(source_line))
    begin = 0 if len(source_line) <= _SHOWN else max(0, at - _SHOWN // 2)
    part = source_line[begin : begin + _SHOWN]
    before = part[: at - begin]
    lead, tail = "… " if begin else "", " …" if begin + _SHOWN < len(source_line) else ""
    gutter = f"{position.line:>4} │ "
    indent = "".join("\t" if char == "\t" else " " * width(char) for char in before)
    below = " " * (len(gutter) - 2) + "│ " + " " * len(lead)
    return f"{gutter}{lead}{part}{tail}\n{below}{indent}^\n"


def _where(piece: SourceStatement | None, position: Position | None) -> str:
    """`FILE:LINE:COLUMN, statement N: ` in a file; elsewhere the number of all but the first."""
    if piece is None or piece.source.name is None:
        return f"statement {piece.number}: " if piece is not None and piece.number > 1 else ""
    place = f"{piece.line}"
    if position is not None:
        place = f"{position.line}:{position.column}"
    return f"{piece.source.name}:{place}, statement {piece.number}: "


def _at(piece: SourceStatement | None, position: Position | None) -> str:
    if position is None or (piece is not None and piece.source.name is not None):
        return ""
    return f" (line {position.line}, column {position.column})"


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""
