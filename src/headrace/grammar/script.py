"""Splitting of a script into its statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.grammar.blocks import block_end
from headrace.grammar.lexer import WHITESPACE, Token, TokenKind, code_tokens


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement of a script, with the comments around it."""

    text: str
    """Exact slice of the script, without the `;` and without white space at both ends."""
    offset: int
    """Start of the slice, in code points."""
    line: int
    """Line of the start, counted from 1."""
    column: int
    """DeclaredColumn of the start, counted from 1, in code points."""


def split_script(text: str) -> list[ScriptStatement]:
    """Split a script on `;` outside strings, comments and scripting blocks. Never raise an error.

    Parts without a statement (nothing, or only comments) are dropped. A text with an unclosed quote
    or comment is one statement, and an unclosed block extends to the end: Spark then reports the
    error.
    """
    statements = []
    line, line_start, counted = 1, 0, 0
    for start, end, _ in statement_spans(text, list(code_tokens(text))):
        statement = text[start:end].lstrip(WHITESPACE)
        offset = end - len(statement)
        line += text.count("\n", counted, offset)
        line_start = max(line_start, text.rfind("\n", counted, offset) + 1)
        counted = offset
        column = offset - line_start + 1
        statements.append(ScriptStatement(statement.rstrip(WHITESPACE), offset, line, column))
    return statements


def is_complete_script(text: str) -> bool:
    """Return whether every statement of a script ends with `;`.

    Return True for a text without statements, and False for a text with an unclosed quote, comment
    or scripting block.
    """
    tokens = list(code_tokens(text))
    if not tokens:
        return True
    if tokens[-1].kind is TokenKind.UNREADABLE:
        return False
    ends = [end for _, end, _ in statement_spans(text, tokens)]
    return not ends or ends[-1] <= tokens[-1].start


def statement_spans(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int, Token]]:
    """Yield start, end and first token of each statement.

    Args:
        tokens: The tokens of the text, without comments.
    """
    if tokens and tokens[-1].kind is TokenKind.UNREADABLE:
        yield 0, len(text), tokens[0]
        return
    start = index = 0
    while index < len(tokens):
        first = index
        index = block_end(tokens, index)
        while index < len(tokens) and tokens[index].word != ";":
            index += 1
        end = tokens[index].start if index < len(tokens) else len(text)
        if index > first:
            yield start, end, tokens[first]
        start, index = end + 1, index + 1


_DEFINITIONS = frozenset({"CREATE", "DROP", "ALTER", "SHOW", "DESCRIBE", "REFRESH", "SAVE"})
_MODIFIERS = frozenset({"OR", "REPLACE", "GLOBAL", "TEMPORARY", "TEMP", "EXTERNAL", "EXTENDED"})
_OBJECTS = frozenset(
    {
        *("CATALOG", "DATABASE", "FUNCTION", "FUNCTIONS", "INDEX", "NAMESPACE", "PROCEDURE"),
        *("SCHEMA", "SINK", "STREAM", "TABLE", "TABLES", "VARIABLE", "VIEW", "VIEWS"),
    }
)
_WORDS = 8
"""Words of a statement in which its verb and object stand."""


def describe_verb(text: str) -> str:
    """Return the words of a statement that name it, for example `CREATE TABLE` or `INSERT`.

    Return an empty string if it does not begin with a word.
    """
    words: list[str] = []
    for token in code_tokens(text):
        if token.kind is not TokenKind.WORD or len(words) == _WORDS:
            break
        words.append(token.word)
    if not words:
        return ""
    verb, *others = words
    if verb not in _DEFINITIONS:
        return verb
    names = [word for word in others if word not in _MODIFIERS]
    if names[:2] == ["MATERIALIZED", "VIEW"]:
        return f"{verb} MATERIALIZED VIEW"
    return f"{verb} {names[0]}" if names and names[0] in _OBJECTS else verb
