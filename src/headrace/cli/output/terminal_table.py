"""Tables on a terminal, drawn by rich. Import this module for terminals only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from rich.box import Box
from rich.table import Column, Table
from rich.text import Text

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.console import open_text_console
from headrace.cli.output.styled import StyledText
from headrace.cli.output.table import TableLines
from headrace.cli.output.text import cut, display_width, is_numeric_type, to_printable
from headrace.cli.output.widths import NARROWEST, fit_widths, measure_columns

_BATCH_ROWS = 500
"""Rows that are drawn at a time, so that the first rows of a large result appear early."""
_FIXED_TYPES = {"boolean", "date", "time", "timestamp", "timestamp_ntz", "void", "interval"}


def is_flexible_type(type_name: str) -> bool:
    """Return whether values of a Spark SQL type may be cut: texts and nested values, no numbers."""
    kind = type_name.partition("(")[0].partition(" ")[0]
    return not is_numeric_type(type_name) and kind not in _FIXED_TYPES


def fits_terminal(columns: Sequence[OutputColumn], sample: Sequence[Row], width: int) -> bool:
    """Return whether a table of these rows fits, with values cut to 10 columns if necessary."""
    return _ColumnPlan(columns, sample).fit(width)[1]


class _ColumnPlan:
    """The widths that columns need, for the rows that have been seen."""

    def __init__(self, columns: Sequence[OutputColumn], rows: Sequence[Row]) -> None:
        self._flexible = [is_flexible_type(column.type) for column in columns]
        self._values = [0] * len(columns)
        self._names = [display_width(to_printable(column.name)) for column in columns]
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Take more rows into account."""
        self._values = measure_columns(self._values, rows)

    def fit(self, width: int) -> tuple[list[int], bool]:
        """Return the widths of the columns on a terminal, and whether the terminal is wide enough.

        Long names and the values of flexible columns may be cut, numbers may not.
        """
        needed = list(map(max, self._names, self._values))
        floors = [
            min(needed, NARROWEST if flexible else max(values, NARROWEST))
            for needed, values, flexible in zip(needed, self._values, self._flexible, strict=True)
        ]
        # A space on each side of a value, and lines between the columns.
        return fit_widths(needed, floors, width - 3 * len(needed) + 1)


def write_table(out: TextIO, table: Table, *, colour: bool) -> None:
    """Write a table whose columns have a width and whose texts are escaped."""
    console = open_text_console(colour=colour)
    with console.capture() as capture:
        console.print(table)
    out.writelines(
        StyledText(line.rstrip() + "\n") for line in capture.get().removesuffix("\n").split("\n")
    )


class TerminalTableWriter:
    """A table that fits the terminal. Values that are too wide are cut and end with a mark.

    The column widths follow from the first rows. They grow when later rows have longer values, as
    far as the terminal allows.
    """

    def __init__(
        self, out: TextIO, width: int, *, colour: bool, on_cut: Callable[[int], None]
    ) -> None:
        """Prepare the table.

        Args:
            width: Columns of the terminal.
            on_cut: Called at the end with the number of cut values, if there are any.
        """
        self._out = out
        self._width = width
        self._lines = TableLines(out.encoding)
        self._colour = colour
        self._on_cut = on_cut
        self._cut_count = 0
        self._columns: Sequence[OutputColumn] = ()
        self._plan = _ColumnPlan((), ())

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        self._columns = columns
        self._plan = _ColumnPlan(columns, sample)
        self._draw((), has_header=True)

    def write_rows(self, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _BATCH_ROWS):
            batch = rows[start : start + _BATCH_ROWS]
            self._plan.add(batch)
            self._draw(batch, has_header=False)

    def end(self) -> None:
        if self._cut_count:
            self._on_cut(self._cut_count)

    def _draw(self, rows: Sequence[Row], *, has_header: bool) -> None:
        widths, _ = self._plan.fit(self._width)
        table = Table(
            *[
                Column(
                    self._make_cell(to_printable(column.name), width, "bold") if has_header else "",
                    width=width,
                    justify="right" if is_numeric_type(column.type) else "left",
                )
                for column, width in zip(self._columns, widths, strict=True)
            ],
            box=self._make_box(),
            show_edge=False,
            show_header=has_header,
            header_style="none",
        )
        for row in rows:
            styles = ("dim" if value is None else "" for value in row)
            table.add_row(*map(self._make_cell, row, widths, styles))
        write_table(self._out, table, colour=self._colour)

    def _make_cell(self, value: object, width: int, style: str) -> Text:
        lines = self._lines.split(value)
        if any(display_width(line) > width for line in lines):
            self._cut_count += 1
            lines = [cut(line, width, utf8=self._lines.utf8) for line in lines]
        return Text().append("\n".join(lines), style or None)

    def _make_box(self) -> Box:
        """Return the lines of a table: one below the header, and one between the columns."""
        across, down, cross = self._lines.across, self._lines.down, self._lines.cross
        cells, rule, none = f"  {down} \n", f" {across}{cross} \n", "    \n"
        return Box(none + cells + rule + cells + none + none + cells + none)
