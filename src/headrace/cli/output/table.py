"""Formats for people: a table for pipes and files, one value per line, and a text as it is.

On a terminal, `headrace.cli.output.terminal_table` draws the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.styled import StyledText, paint
from headrace.cli.output.text import (
    display_width,
    is_numeric_type,
    is_utf8,
    pad,
    to_printable,
    to_printable_lines,
    to_text,
)
from headrace.cli.output.widths import measure_columns
from headrace.printable import escape_controls


class TableLines:
    """The characters of which a table consists, in the encoding of a stream."""

    def __init__(self, encoding: str | None) -> None:
        self.utf8 = is_utf8(encoding)
        self.across, self.down, self.cross = ("─", "│", "┼") if self.utf8 else ("-", "|", "+")
        self.line_break = "↵" if self.utf8 else "\\"
        """Ends a line of a value that continues on the next line of the terminal."""

    def split(self, value: object) -> list[str]:
        """Return the lines of a value; all but the last have the mark of a line break."""
        *lines, last = to_printable_lines(value)
        return [*(line + self.line_break for line in lines), last]


class TableWriter:
    """A table for pipes and files, in which every value is whole.

    The column widths follow from the first rows. A longer value in a later row exceeds its column.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines = TableLines(out.encoding)
        self._widths: list[int] = []
        self._right: list[bool] = []

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        names = [to_printable(column.name) for column in columns]
        self._widths = measure_columns([display_width(name) for name in names], sample)
        self._right = [is_numeric_type(column.type) for column in columns]
        self._write_line(names)
        rules = [self._lines.across * (size + 2) for size in self._widths]
        self._out.write(self._lines.cross.join(rules) + "\n")

    def write_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            for line in zip_longest(*map(self._lines.split, row), fillvalue=""):
                self._write_line(line)

    def end(self) -> None:
        pass

    def _write_line(self, texts: Sequence[str]) -> None:
        cells = zip(texts, self._widths, self._right, strict=True)
        padded = [pad(text, size, right=right) for text, size, right in cells]
        self._out.write((" " + f" {self._lines.down} ".join(padded)).rstrip() + "\n")


class VerticalWriter:
    """One value per line; a numbered rule precedes each row."""

    def __init__(self, out: TextIO, *, colour: bool) -> None:
        self._out = out
        self._lines = TableLines(out.encoding)
        self._colour = colour
        self._names: list[str] = []
        self._indent = ""
        self._row_number = 0

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        names = [to_printable(column.name) for column in columns]
        size = max(map(display_width, names), default=0)
        self._names = [pad(name, size) for name in names]
        self._indent = " " * size

    def write_rows(self, rows: Sequence[Row]) -> None:
        across = self._lines.across
        for row in rows:
            self._row_number += 1
            rule = f"{across}[ {self._row_number} ]".ljust(40, across)
            self._out.write(paint(rule, "bold", colour=self._colour))
            self._out.write("\n")
            for name, value in zip(self._names, row, strict=True):
                self._write_value(name, value)

    def end(self) -> None:
        pass

    def _write_value(self, name: str, value: object) -> None:
        first, *others = to_printable_lines(value)
        if value is None:
            first = paint(first, "dim", colour=self._colour)
        down = self._lines.down
        self._out.write(StyledText(f"{name} {down} {first}\n"))
        for line in others:
            self._out.write(StyledText(f"{self._indent} {down} {line}\n"))


class RawTextWriter:
    """A single text without its name and without lines, so that it can be copied."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        pass

    def write_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._out.write(escape_controls(to_text(row[0])).rstrip("\n") + "\n")

    def end(self) -> None:
        pass


def is_lone_text(
    columns: Sequence[OutputColumn], sample: Sequence[Row], row_count: int | None
) -> bool:
    """Return whether a result is a single text of several lines, for example a plan of EXPLAIN.

    Args:
        row_count: Number of rows of the result; None if it is not known.
    """
    if len(columns) != 1 or row_count != 1 or len(sample) != 1:
        return False
    value = sample[0][0]
    return isinstance(value, str) and "\n" in value.rstrip("\n")
