"""Text with control sequences of the shell itself: colours, and the erasure of a line."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, TextIO

from headrace.text.printable import escape_controls

if TYPE_CHECKING:
    from rich.style import Style


class StyledText(str):
    """Text that a terminal stream writes without escapes.

    Every part of it that is not a constant of the shell must be escaped, as `paint` does.
    """

    __slots__ = ()


ERASE_LINE = StyledText("\r\x1b[2K")
"""Moves the cursor to the start of the line and erases the line."""


def paint(text: str, style: str, *, colour: bool) -> str:
    """Return a text in a style of rich, for example `bold` or `red`; unchanged without colour."""
    if not colour or not style:
        return text
    return StyledText(_parse_style(style).render(escape_controls(text)))


@lru_cache
def _parse_style(style: str) -> Style:
    # rich takes 0.02 s to import, which output without colour does not need.
    from rich.style import Style  # noqa: PLC0415

    return Style.parse(style)


class WrappedStream(io.TextIOBase):
    """Base of the streams that change what is written to a stream of the process."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()
