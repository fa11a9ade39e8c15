"""Splitting a script into its statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.grammar.blocks import block_end
from headrace.grammar.tokens import WHITESPACE, Token, TokenKind, code_tokens


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement of a script, with the comments that stand around it."""

    text: str
    """An exact slice of the script, without the `;` and the white space at both ends."""
    offset: int
    """Where the slice begins, in code points."""
    line: int
    """Counted from 1, as is `column`; columns in code points."""
    column: int


def split_script(text: str) -> list[ScriptStatement]:
    """The statements of a script, split on `;` outside strings, comments and scripting blocks.

    What holds no statement (nothing, or comments alone) is left out. A text with a quote or a
    comment that nothing closes is one piece, and a block that nothing closes takes the rest: it is
    for Spark to say what is wrong with them. Never raises.
    """
    pieces = []
    line, line_start, seen = 1, 0, 0
    for start, end, _ in _spans(text):
        piece = text[start:end].lstrip(WHITESPACE)
        offset = end - len(piece)
        line += text.count("\n", seen, offset)
        line_start = max(line_start, text.rfind("\n", seen, offset) + 1)
        seen = offset
        pieces.append(
            ScriptStatement(piece.rstrip(WHITESPACE), offset, line, offset - line_start + 1)
        )
    return pieces


def statement_starts(text: str) -> list[Token]:
    """The token that each statement of a script begins with."""
    return [first for _, _, first in _spans(text)]


def _spans(text: str) -> Iterator[tuple[int, int, Token]]:
    """Start, end and first token of each statement; together with the `;` they cover the text."""
    found = list(code_tokens(text))
    if found and found[-1].kind is TokenKind.UNREADABLE:
        yield 0, len(text), found[0]
        return
    start = at = 0
    while at < len(found):
        first = at
        at = block_end(found, at)
        while at < len(found) and found[at].word != ";":
            at += 1
        end = found[at].start if at < len(found) else len(text)
        if at > first:
            yield start, end, found[first]
        start, at = end + 1, at + 1
