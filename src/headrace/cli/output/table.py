"""Formats for people: a table, or one value per line if a table would be too wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.styled import StyledText
from headrace.cli.output.text import NULL, display_width, is_numeric_type, pad, to_printable

_DIM, _BOLD, _RESET = "\x1b[2m", "\x1b[1m", "\x1b[0m"


class TableStyle:
    """Lines and colours that an output stream can show."""

    def __init__(self, encoding: str | None, *, colour: bool) -> None:
        box_drawing = (encoding or "").lower().replace("-", "") == "utf8"
        self.across, self.down, self.cross = ("─", "│", "┼") if box_drawing else ("-", "|", "+")
        self._colour = colour

    def bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_RESET}" if self._colour else text

    def cell(self, text: str, *, null: bool) -> str:
        """Return the text of a cell. NULL is dimmed, to distinguish it from the string `NULL`."""
        return f"{_DIM}{text}{_RESET}" if null and self._colour else text


def table_width(columns: Sequence[OutputColumn], sample: Sequence[Row]) -> int:
    """Return the number of terminal columns that a table of these rows needs."""
    return sum(_column_widths(columns, sample)) + 3 * len(columns) - 1


def _column_widths(columns: Sequence[OutputColumn], sample: Sequence[Row]) -> list[int]:
    return [
        max(
            [
                display_width(to_printable(column.name)),
                *(display_width(to_printable(row[index])) for row in sample),
            ]
        )
        for index, column in enumerate(columns)
    ]


class TableWriter:
    """A table whose column widths follow from the first rows.

    A longer value in a later row exceeds its column, but it is written whole.
    """

    def __init__(self, out: TextIO, style: TableStyle) -> None:
        self._out = out
        self._style = style
        self._widths: list[int] = []
        self._right: list[bool] = []

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        self._widths = _column_widths(columns, sample)
        self._right = [is_numeric_type(column.type) for column in columns]
        names = [
            self._style.bold(pad(to_printable(column.name), size, right=right))
            for column, size, right in zip(columns, self._widths, self._right, strict=True)
        ]
        rules = [self._style.across * (size + 2) for size in self._widths]
        self._write_line(names)
        self._out.write(self._style.cross.join(rules) + "\n")

    def write_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            cells = zip(row, self._widths, self._right, strict=True)
            self._write_line(
                [
                    self._style.cell(
                        pad(to_printable(value), size, right=right), null=value is None
                    )
                    for value, size, right in cells
                ]
            )

    def end(self) -> None:
        pass

    def _write_line(self, cells: list[str]) -> None:
        line = (" " + f" {self._style.down} ".join(cells)).rstrip()
        self._out.write(StyledText(line + "\n"))


class VerticalWriter:
    """One value per line; a numbered rule precedes each row."""

    def __init__(self, out: TextIO, style: TableStyle) -> None:
        self._out = out
        self._style = style
        self._names: list[str] = []
        self._row_number = 0

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        names = [to_printable(column.name) for column in columns]
        size = max(map(display_width, names), default=0)
        self._names = [pad(name, size) for name in names]

    def write_rows(self, rows: Sequence[Row]) -> None:
        across, down = self._style.across, self._style.down
        for row in rows:
            self._row_number += 1
            rule = f"{across}[ {self._row_number} ]".ljust(40, across)
            self._out.write(StyledText(self._style.bold(rule) + "\n"))
            for name, value in zip(self._names, row, strict=True):
                text = NULL if value is None else to_printable(value)
                cell = self._style.cell(text, null=value is None)
                self._out.write(StyledText(f"{name} {down} {cell}\n"))

    def end(self) -> None:
        pass
