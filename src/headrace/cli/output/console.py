"""Consoles of rich on the streams of a command. Import this module for terminals only."""

from __future__ import annotations

import io
from typing import TextIO, cast

from rich.console import Console

from headrace.cli.output.styled import StyledText, WrappedStream

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
