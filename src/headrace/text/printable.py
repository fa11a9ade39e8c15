"""Text for people: without characters that control a terminal, and with correct plurals."""

from __future__ import annotations

import re
import unicodedata

_SUSPECT = re.compile(r"[^\n\t -~]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HARMLESS_CATEGORIES = {"Zs", "Co", "Cn"}
"""Spaces, and characters without a meaning in this version of Unicode."""


def escape_controls(text: str) -> str:
    """Return a text in which escapes replace the control characters.

    Line feeds and tabs remain.
    """
    return _SUSPECT.sub(lambda match: escape_character(match[0]), text)


def escape_character(char: str) -> str:
    """Return a character, or its escape if it is a control character, a line feed or a tab."""
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if char.isprintable() or unicodedata.category(char) in _HARMLESS_CATEGORIES:
        return char
    return char.encode("unicode_escape").decode("ascii")


def describe_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 row`, `1,200 rows`.

    Args:
        plural: The plural of the noun; None: with an `s`.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
