"""Colours of the prompt, from the tokens of the project's own lexer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from headrace.cli.shell.completion_context import KEYWORDS, TYPES
from headrace.grammar.lexer import Token, TokenKind, tokenize

STYLE = Style.from_dict(
    {
        "sql.keyword": "bold ansiblue",
        "sql.type": "ansicyan",
        "sql.string": "ansigreen",
        "sql.name": "",
        "sql.number": "ansimagenta",
        "sql.comment": "italic ansibrightblack",
        "sql.command": "bold ansiyellow",
        "prompt": "bold",
        "continuation": "ansibrightblack",
    }
)


class SqlLexer(Lexer):
    """Lexer of prompt_toolkit for SQL and backslash commands."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = style_lines(document.text)
        return lambda number: lines[number] if number < len(lines) else []


def style_lines(text: str) -> list[StyleAndTextTuples]:
    """Return the styled fragments of each line of a text."""
    lines: list[StyleAndTextTuples] = [[]]
    for style, part in _style_parts(text):
        first, *others = part.split("\n")
        lines[-1].append((style, first))
        lines.extend([(style, other)] for other in others)
    return lines


def _style_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield all of a text in parts, each with its style."""
    if text.lstrip().startswith("\\"):
        command, separator, rest = text.partition(" ")
        yield "class:sql.command", command
        yield "", separator + rest
        return
    at = 0
    for token in tokenize(text):
        yield "", text[at : token.start]
        yield _token_style(text, token), text[token.start : token.end]
        at = token.end
    yield "", text[at:]


def _token_style(text: str, token: Token) -> str:
    first = text[token.start]
    if token.kind is TokenKind.COMMENT or text.startswith("/*", token.start):
        return "class:sql.comment"
    if first.isdecimal():
        return "class:sql.number"
    if first == "`":
        return "class:sql.name"
    if token.kind in {TokenKind.QUOTED, TokenKind.UNREADABLE}:
        return "class:sql.string"
    if token.word in KEYWORDS:
        return "class:sql.keyword"
    return "class:sql.type" if token.word in TYPES else ""
