"""Widths of the columns of tables and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.cli.output.text import display_width, to_printable_lines

NARROWEST = 10
"""Width below which no column is cut."""


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
    fitted = [
        max(min(width, available), floor) for width, floor in zip(widths, floors, strict=True)
    ]
    for _ in range(sum(fitted) - available):
        shrinkable = [index for index, floor in enumerate(floors) if fitted[index] > floor]
        if not shrinkable:
            return fitted, False
        fitted[max(shrinkable, key=fitted.__getitem__)] -= 1
    return fitted, True
