"""The names that a text mentions: of tables, streams and sinks that it may read or write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from headrace.grammar.lexer import TokenKind, code_tokens
from headrace.grammar.quoting import unquote_name

_MAX_PARTS = 3
_PART = r"(?:`(?:[^`\n]|``)+`|[^\W`]+)"
_CHAIN = re.compile(rf"{_PART}(?:\s*\.\s*{_PART})*")
_PLAIN_CHAIN = re.compile(r"\w+(?:\s*\.\s*\w+)*")
_ONE_PART = re.compile(_PART)


class MentionedNames:
    """Every name, of one to three parts, that occurs in some texts. Any case is equal.

    Columns, functions and words of strings count too: it is enough that no name of a table is
    missed.
    """

    def __init__(self) -> None:
        self._names: set[tuple[str, ...]] = set()

    def add_sql(self, text: str) -> None:
        """Add the names of a SQL text, and those inside its strings. Comments do not count."""
        code: list[str] = []
        for token in code_tokens(text):
            part = text[token.start : token.end]
            is_string = token.kind is TokenKind.QUOTED and part[0] != "`"
            if is_string:
                self._add_chains(part)
            code.append("'" if is_string else part)
        self._add_chains(" ".join(code))

    def add_python(self, text: str) -> None:
        """Add the names of Python code: identifiers, and the names inside its strings."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._add_chains(text)
            return
        for word in _list_python_words(tree):
            self._add_chains(word)

    def add_name(self, parts: Iterable[str]) -> None:
        """Add one name, and its parts."""
        self._add_parts(list(parts))

    def has(self, parts: tuple[str, ...]) -> bool:
        """Return whether a name, given in case-folded parts, occurs, also within a longer one."""
        return parts in self._names

    def _add_chains(self, text: str) -> None:
        # Where a text has a stray backtick, plain names are still found by the second pattern.
        for pattern in (_CHAIN, _PLAIN_CHAIN):
            for match in pattern.finditer(text):
                self._add_parts([unquote_name(part) for part in _ONE_PART.findall(match[0])])

    def _add_parts(self, parts: list[str]) -> None:
        folded = fold_name(parts)
        for first in range(len(folded)):
            for end in range(first + 1, min(first + _MAX_PARTS, len(folded)) + 1):
                self._names.add(folded[first:end])


def _list_python_words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def fold_name(parts: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of a name in the form in which names are compared."""
    return tuple(part.casefold() for part in parts)
