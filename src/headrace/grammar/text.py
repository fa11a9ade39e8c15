"""Limits that every SQL text must respect, and positions in a text."""

from __future__ import annotations

from headrace.errors import InvalidText, Position, StatementTooLarge

MAX_BYTES = 1024 * 1024
"""Largest text, in bytes of UTF-8."""


def check_text(text: str) -> None:
    """Raise an error for a text that no node stores and no driver runs.

    Raises:
        StatementTooLarge: If the text is larger than 1 MiB in UTF-8.
        InvalidText: If the text contains a NUL or an unpaired surrogate.
    """
    size = len(text)
    if size <= MAX_BYTES:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidText(
                f"The text contains the unpaired surrogate U+{ord(text[error.start]):04X}, "
                "which is not a character.",
                position=position_at(text, error.start),
            ) from None
    if size > MAX_BYTES:
        raise StatementTooLarge(f"The statement is larger than 1 MiB ({MAX_BYTES} bytes in UTF-8).")
    nul = text.find("\0")
    if nul >= 0:
        raise InvalidText("The text contains a NUL character.", position=position_at(text, nul))


def position_at(text: str, offset: int) -> Position:
    """Return line and column of an offset in code points. Lines end with LF, as in Spark."""
    start = text.rfind("\n", 0, offset) + 1
    return Position(line=text.count("\n", 0, offset) + 1, column=offset - start + 1)


def offset_at(text: str, position: Position) -> int:
    """Return the offset of a position in code points: the inverse of `position_at`."""
    start = 0
    for _ in range(position.line - 1):
        start = text.find("\n", start) + 1
    return start + position.column - 1
