"""What any SQL text must be, and places in it."""

from __future__ import annotations

from headrace.errors import EmptyStatement, InvalidText, Position, StatementTooLarge
from headrace.grammar.tokens import code_tokens

MAX_BYTES = 1024 * 1024
"""The largest text, in UTF-8."""


def check_text(text: str) -> None:
    """Refuses what no node stores and no driver runs.

    Raises StatementTooLarge above 1 MiB in UTF-8, InvalidText for a NUL or half a surrogate pair,
    and EmptyStatement when the text holds nothing but white space, comments and `;`.
    """
    size = len(text)
    if size <= MAX_BYTES:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidText(
                f"The text holds half a surrogate pair (U+{ord(text[error.start]):04X}), "
                "which is no character.",
                position=position_at(text, error.start),
            ) from None
    if size > MAX_BYTES:
        raise StatementTooLarge(f"The statement is larger than 1 MiB ({MAX_BYTES} bytes in UTF-8).")
    nul = text.find("\0")
    if nul >= 0:
        raise InvalidText("The text holds a NUL character.", position=position_at(text, nul))
    if all(token.word == ";" for token in code_tokens(text)):
        raise EmptyStatement


def position_at(text: str, offset: int) -> Position:
    """The line and column of an offset in code points. Lines end with `\\n`, as Spark counts."""
    start = text.rfind("\n", 0, offset) + 1
    return Position(line=text.count("\n", 0, offset) + 1, column=offset - start + 1)
