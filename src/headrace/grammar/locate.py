"""The position of a value in the text of a statement that was parsed before."""

from __future__ import annotations

from headrace.errors import Position
from headrace.grammar.lexer import code_tokens
from headrace.grammar.text import position_at


def find_position(text: str, value: str) -> Position | None:
    """Return the position of the first name or string with this value, in any case.

    Return None if there is none, for example because the value contains escapes.
    """
    for token in code_tokens(text):
        word = text[token.start : token.end].strip("`'\"")
        if word.casefold() == value.casefold():
            return position_at(text, token.start)
    return None
