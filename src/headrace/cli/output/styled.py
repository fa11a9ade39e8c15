"""Text with control sequences of the shell itself: colours, and the erasure of a line."""

from __future__ import annotations


class StyledText(str):
    """Text that a terminal stream writes without escapes.

    Every part of it that is not a constant of the shell must come from `to_printable`.
    """

    __slots__ = ()


ERASE_LINE = StyledText("\r\x1b[2K")
"""Moves the cursor to the start of the line and erases the line."""
