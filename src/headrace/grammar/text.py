"""Limits that every SQL text must respect, and positions in a text."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import InvalidText, Position, StatementTooComplex, StatementTooLarge
from headrace.grammar.lexer import Token, code_tokens

MAX_BYTES = 10 * 1024 * 1024
"""Largest text, in bytes of UTF-8. Tools that load data by `INSERT … VALUES` send some MiB."""
MAX_OWN = 1024 * 1024
"""Largest text of a statement of Headrace's own, in bytes, and of a block, in characters."""
MAX_NESTING = 1000
"""Largest depth of brackets, CASE expressions and types inside each other.

The time of Spark's parser grows with the square of the depth: 1,000 nested types take seconds, and
50,000 parentheses minutes. With the default size of a thread's stack, Spark refuses about 800.
"""
_LEVELS = {")": "(", "]": "[", "}": "{", "END": "CASE", ">": "<"}
"""The word that begins a level, by the word that ends it."""
_NESTED_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})
LEVEL_WORDS = _NESTED_TYPES | {"CASE", "END"}
"""Words by which `check_nesting` counts levels."""


def check_text(text: str) -> None:
    """Raise an error for a text that no node stores and no driver runs.

    Raises:
        StatementTooLarge: If the text is larger than 10 MiB in UTF-8.
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
        raise StatementTooLarge(
            f"The statement is larger than 10 MiB ({MAX_BYTES} bytes in UTF-8).",
            hint="Load data from files instead of literals.",
        )
    nul = text.find("\0")
    if nul >= 0:
        raise InvalidText("The text contains a NUL character.", position=position_at(text, nul))


def check_nesting(text: str, tokens: Iterable[Token]) -> None:
    """Raise StatementTooComplex, with the position, for a text that is nested too deeply.

    Args:
        tokens: The tokens of the text, without comments.
    """
    if sum(map(text.count, "([{<")) + text.upper().count("CASE") <= MAX_NESTING:
        return
    depths = dict.fromkeys(_LEVELS.values(), 0)
    previous = ""
    for token in tokens:
        if _opens_level(token.word, previous):
            depths[token.word] += 1
        elif token.word in _LEVELS:
            opening = _LEVELS[token.word]
            depths[opening] = max(0, depths[opening] - 1)
        previous = token.word
        if sum(depths.values()) > MAX_NESTING:
            raise StatementTooComplex(
                f"The statement is nested more than {MAX_NESTING} levels deep.",
                position=position_at(text, token.start),
                hint="Divide the statement into several less complex ones.",
            )


def _opens_level(word: str, previous: str) -> bool:
    if word == "<":
        return previous in _NESTED_TYPES
    if word == "CASE":
        return previous not in {".", "END"}
    return word in {"(", "[", "{"}


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


def find_position(text: str, value: str) -> Position | None:
    """Return the position of the first name or string with this value, in any case.

    Return None if there is none, for example because the value contains escapes.
    """
    for token in code_tokens(text):
        word = text[token.start : token.end].strip("`'\"")
        if word.casefold() == value.casefold():
            return position_at(text, token.start)
    return None
