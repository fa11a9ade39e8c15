"""Widths of the columns of tables and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.cli.output.text import (
    display_width,
    is_numeric_type,
    to_printable,
    to_printable_lines,
)
from headrace.cli.output.writers import OutputColumn, Row

_NARROWEST = 10
"""Width below which no column of a table is cut."""
_FIXED_TYPES = {"boolean", "date", "time", "timestamp", "timestamp_ntz", "void", "interval"}


def measure_cell(value: object) -> int:
    """Return the columns of a terminal that a value needs, with the marks of its line breaks."""
    *lines, last = to_printable_lines(value)
    return max([*(display_width(line) + 1 for line in lines), display_width(last)])


def measure_columns(widths: Sequence[int], rows: Iterable[Sequence[object]]) -> list[int]:
    """Return the widths of columns, enlarged so that all values of these rows fit."""
    enlarged = list(widths)
    for row in rows:
        enlarged = list(map(max, enlarged, map(measure_cell, row)))
    return enlarged


def fit_widths(
    widths: Sequence[int], floors: Sequence[int], available: int
) -> tuple[list[int], bool]:
    """Shrink columns, the widest first, until all of them fit.

    Args:
        widths: Widths at which every value fits.
        floors: Widths below which the columns do not shrink.
        available: Sum of the widths that fits.

    Returns:
        The widths, and whether they fit.
    """
    if sum(floors) > available:
        return [*floors], False
    fitted = [
        max(min(width, available), floor) for width, floor in zip(widths, floors, strict=True)
    ]
    for _ in range(sum(fitted) - available):
        shrinkable = [index for index, floor in enumerate(floors) if fitted[index] > floor]
        fitted[max(shrinkable, key=fitted.__getitem__)] -= 1
    return fitted, True


def is_flexible_type(type_name: str) -> bool:
    """Return whether values of a Spark SQL type may be cut: texts and nested values, no numbers."""
    kind = type_name.partition("(")[0].partition(" ")[0]
    return not is_numeric_type(type_name) and kind not in _FIXED_TYPES


class ColumnPlan:
    """The widths that columns need, for the rows that have been seen."""

    def __init__(self, columns: Sequence[OutputColumn], rows: Sequence[Row]) -> None:
        self._flexible = [is_flexible_type(column.type) for column in columns]
        self._values = [0] * len(columns)
        self._names = [display_width(to_printable(column.name)) for column in columns]
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Take more rows into account."""
        self._values = measure_columns(self._values, rows)

    def fit(self, width: int | None) -> tuple[list[int], bool]:
        """Return the widths of the columns on a terminal, and whether the terminal is wide enough.

        Long names and the values of flexible columns may be cut, numbers may not.

        Args:
            width: Columns of the terminal; None: no value may be cut.
        """
        needed = list(map(max, self._names, self._values))
        if width is None:
            return needed, True
        floors = [
            min(needed, _NARROWEST if flexible else max(values, _NARROWEST))
            for needed, values, flexible in zip(needed, self._values, self._flexible, strict=True)
        ]
        # A space on each side of a value, and lines between the columns.
        return fit_widths(needed, floors, width - 3 * len(needed) + 1)
