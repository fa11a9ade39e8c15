"""Formats for people: a table, one value per line, and a text as it is.

rich measures, cuts and styles the texts. Its own tables would take some 90 µs for each value, which
a result of 10,000 rows makes seconds of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TextIO

from headrace.cli.output.text import (
    StyledText,
    cut,
    display_width,
    is_numeric_type,
    is_utf8,
    pad,
    paint,
    to_printable,
    to_printable_lines,
    to_text,
)
from headrace.cli.output.widths import ColumnPlan
from headrace.cli.output.writers import OutputColumn, Row
from headrace.text.readable import escape_controls

_BATCH_ROWS = 1000
"""Rows for which a table on a terminal plans its columns anew."""


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
    """A table whose column widths follow from the first rows.

    On a terminal, the table fits its width: longer values are cut and end with a mark. The columns
    grow when later rows have longer values, as far as the terminal allows. In a pipe or a file,
    every value is whole: a longer value in a later row exceeds its column.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        colour: bool = False,
        width: int | None = None,
        on_cut: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Prepare the table.

        Args:
            width: Columns of the terminal; None: not a terminal.
            on_cut: Called at the end with the number of cut values, if there are any.
        """
        self._out = out
        self._lines = TableLines(out.encoding)
        self._colour = colour
        self._width = width
        self._on_cut = on_cut
        self._cut_count = 0
        self._plan = ColumnPlan((), ())
        self._widths: list[int] = []
        self._right: list[bool] = []

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        self._plan = ColumnPlan(columns, sample)
        self._widths = self._plan.fit(self._width)[0]
        self._right = [is_numeric_type(column.type) for column in columns]
        self._write_row([to_printable(column.name) for column in columns], "bold")
        rules = [self._lines.across * (size + 2) for size in self._widths]
        self._out.write(self._lines.cross.join(rules) + "\n")

    def write_rows(self, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _BATCH_ROWS):
            batch = rows[start : start + _BATCH_ROWS]
            if self._width is not None:
                self._plan.add(batch)
                self._widths = self._plan.fit(self._width)[0]
            for row in batch:
                self._write_row(row)

    def end(self) -> None:
        if self._cut_count:
            self._on_cut(self._cut_count)

    def _write_row(self, row: Row, style: str = "") -> None:
        """Write a row, which takes as many lines as its value with the most lines."""
        styles = ["dim" if value is None else style for value in row]
        # A line ends with its last value, whose own spaces belong to it.
        widths = self._widths if self._right[-1:] == [True] else [*self._widths[:-1], 0]
        for texts in zip_longest(*map(self._split, row, self._widths), fillvalue=""):
            cells = map(self._align, texts, widths, self._right, styles)
            line = " " + f" {self._lines.down} ".join(cells)
            self._out.write(StyledText((line if texts[-1] else line.rstrip(" ")) + "\n"))

    def _align(self, text: str, size: int, is_right: bool, style: str) -> str:
        painted = paint(text, style, colour=self._colour)
        space = " " * (size - display_width(text))
        return space + painted if is_right else painted + space

    def _split(self, value: object, width: int) -> list[str]:
        """Return the lines of a value. On a terminal, they fit the width of its column."""
        lines = self._lines.split(value)
        if self._width is None or all(display_width(line) <= width for line in lines):
            return lines
        self._cut_count += 1
        return [cut(line, width, utf8=self._lines.utf8) for line in lines]


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
