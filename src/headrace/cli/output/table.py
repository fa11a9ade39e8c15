"""Rows for eyes: a table, or one value a line where a table would be too wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.text import NULL, is_number, pad, shown, width

_DIM, _BOLD, _RESET = "\x1b[2m", "\x1b[1m", "\x1b[0m"


class Lines:
    """The strokes and colours that a terminal can show."""

    def __init__(self, encoding: str | None, *, colour: bool) -> None:
        drawn = (encoding or "").lower().replace("-", "") == "utf8"
        self.across, self.down, self.cross = ("─", "│", "┼") if drawn else ("-", "|", "+")
        self._colour = colour

    def bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_RESET}" if self._colour else text

    def cell(self, text: str, *, null: bool) -> str:
        """A cell's text; NULL is dimmed, so that it is told from the word."""
        return f"{_DIM}{text}{_RESET}" if null and self._colour else text


def table_width(columns: Sequence[OutputColumn], sample: Sequence[Row]) -> int:
    """Terminal columns that a table of these rows takes."""
    return sum(_widths(columns, sample)) + 3 * len(columns) - 1


def _widths(columns: Sequence[OutputColumn], sample: Sequence[Row]) -> list[int]:
    return [
        max([width(shown(column.name)), *(width(shown(row[index])) for row in sample)])
        for index, column in enumerate(columns)
    ]


class TableWriter:
    """Widths go by the first rows; a longer value further down juts out, but is whole."""

    def __init__(self, out: TextIO, lines: Lines) -> None:
        self._out = out
        self._lines = lines
        self._widths: list[int] = []
        self._right: list[bool] = []

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        self._widths = _widths(columns, sample)
        self._right = [is_number(column.type) for column in columns]
        names = [
            self._lines.bold(pad(shown(column.name), size, right=right))
            for column, size, right in zip(columns, self._widths, self._right, strict=True)
        ]
        rules = [self._lines.across * (size + 2) for size in self._widths]
        self._write(names)
        self._out.write(self._lines.cross.join(rules) + "\n")

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            cells = zip(row, self._widths, self._right, strict=True)
            self._write(
                [
                    self._lines.cell(pad(shown(value), size, right=right), null=value is None)
                    for value, size, right in cells
                ]
            )

    def end(self) -> None:
        pass

    def _write(self, cells: list[str]) -> None:
        self._out.write((" " + f" {self._lines.down} ".join(cells)).rstrip() + "\n")


class VerticalWriter:
    """One value a line, under a rule that counts the rows."""

    def __init__(self, out: TextIO, lines: Lines) -> None:
        self._out = out
        self._lines = lines
        self._names: list[str] = []
        self._count = 0

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        names = [shown(column.name) for column in columns]
        size = max(map(width, names), default=0)
        self._names = [pad(name, size) for name in names]

    def rows(self, rows: Sequence[Row]) -> None:
        across, down = self._lines.across, self._lines.down
        for row in rows:
            self._count += 1
            self._out.write(self._lines.bold(f"{across}[ {self._count} ]".ljust(40, across)) + "\n")
            for name, value in zip(self._names, row, strict=True):
                text = NULL if value is None else shown(value)
                cell = self._lines.cell(text, null=value is None)
                self._out.write(f"{name} {down} {cell}\n")

    def end(self) -> None:
        pass
