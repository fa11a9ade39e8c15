"""Compact lists on a terminal, drawn by rich. Import this module for terminals only."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO, cast

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headrace.cli.output.text import (
    StyledText,
    WrappedStream,
    cut,
    display_width,
    is_utf8,
    to_printable,
)
from headrace.cli.output.widths import fit_widths

_UNLIMITED_COLUMNS = 1 << 20


class _StyledStream(WrappedStream):
    """A stream whose text comes from rich, and has been escaped before."""

    def write(self, text: str) -> int:
        return self._stream.write(StyledText(text))


def open_console(out: TextIO) -> Console:
    """Return a console without colours that draws on a terminal.

    It does not escape control characters: a text from outside must be escaped before.
    """
    stream = cast("TextIO", _StyledStream(out))
    return Console(file=stream, color_system=None, highlight=False, force_jupyter=False)


def open_text_console(*, colour: bool) -> Console:
    """Return a console for `capture`, which neither wraps nor cuts lines."""
    return Console(
        file=io.StringIO(),
        color_system="standard" if colour else None,
        no_color=not colour,
        width=_UNLIMITED_COLUMNS,
        highlight=False,
        force_jupyter=False,
    )


_NARROWEST = 5
"""Width below which no column is cut."""
_GAP = 2
"""Spaces between two columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnColumn:
    """A column of a list with the texts of its cells."""

    title: str
    texts: Sequence[str]
    styles: Sequence[str] = ()
    """Style of each cell; none: no cell has a style."""
    flexible: bool
    """Whether texts may be cut to fit the terminal."""
    right: bool
    widest: int | None = None
    """Columns of the terminal that it takes at most."""


def draw_list(out: TextIO, columns: Sequence[DrawnColumn], width: int, *, colour: bool) -> None:
    """Write a list that fits a terminal of this width, if its columns that are not flexible do."""
    texts = [[_flatten(text) for text in column.texts] for column in columns]
    needed = [
        min(max(map(display_width, [column.title, *cells])), column.widest or width)
        for column, cells in zip(columns, texts, strict=True)
    ]
    floors = [
        min(size, max(_NARROWEST, display_width(column.title))) if column.flexible else size
        for column, size in zip(columns, needed, strict=True)
    ]
    widths, _ = fit_widths(needed, floors, width - _GAP * (len(columns) - 1))
    table = Table(
        *[
            Column(
                Text().append(column.title, "bold"),
                width=size,
                justify="right" if column.right else "left",
            )
            for column, size in zip(columns, widths, strict=True)
        ],
        box=None,
        padding=(0, _GAP, 0, 0),
        pad_edge=False,
        header_style="none",
    )
    utf8 = is_utf8(out.encoding)
    for index in range(len(columns[0].texts)):
        table.add_row(
            *[
                Text().append(
                    cut(cells[index], size, utf8=utf8),
                    column.styles[index] if column.styles else None,
                )
                for column, cells, size in zip(columns, texts, widths, strict=True)
            ]
        )
    console = open_text_console(colour=colour)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().removesuffix("\n").split("\n")
    out.writelines(StyledText(line.rstrip() + "\n") for line in lines)


def _flatten(text: str) -> str:
    """Return a text as one line without escapes of line breaks."""
    return to_printable(" ".join(text.split()))
