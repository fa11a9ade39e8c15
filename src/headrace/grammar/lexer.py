"""The tokens of a Spark SQL text.

The rules follow the lexer of Spark 4.1 (`SqlBaseLexer.g4`) as far as they decide where a `;` or a
word stands outside strings and comments. docs/explanation/decisions/0002-own-lexer.md says why
sqlglot's tokenizer was not used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum, auto
from typing import NamedTuple

WHITESPACE = " \t\n\f\r\v\u00a0\u1680\u2028\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""White space in Spark SQL; the set is smaller than Python's."""

_LETTER = r"[^\W\d_]"
_NUMBER = r"[0-9]+[eE][+-][0-9]+(?:[fFdD]|[bB][dD])?"
_STRING = r"""[rR]'[^']*+' | [rR]"[^"]*+" | '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+" """
_NAME = r"`(?:[^`]++|``)*+`"
_TOKEN = re.compile(
    rf"""
      (?P<SPACE>   [{WHITESPACE}]++ )
    | (?P<COMMENT> --(?:\\\n|[^\r\n])*+ )                   # a `\` at the end continues the comment
    | (?P<OPEN>    /\*(?!\+) )                              # `/*+` begins a hint, not a comment
    | (?P<NUMBER>  {_NUMBER} )
    | (?P<STRING>  {_STRING} )
    | (?P<NAME>    {_NAME} )
    | (?P<PATH>    {_LETTER}++://(?:{_LETTER}|[0-9_/.?=&\#%-])++ )   # may hold `--` and `/*`
    | (?P<WORD>    (?:[^\W\d]|[0-9])++ )
    | (?P<SYMBOL>  \*/ | . )                                 # `*/` ends a hint
    """,
    re.DOTALL | re.VERBOSE,
)
_SKIPPED_AT_ONCE = 1000
_BRACKET = re.compile(r"/\*(?!\+)|\*/")


class TokenKind(Enum):
    """Classes of tokens."""

    COMMENT = auto()
    WORD = auto()
    """A keyword, a plain identifier, or a number that begins with a digit."""
    QUOTED = auto()
    """A string, a quoted name, a path or a number in scientific notation."""
    SYMBOL = auto()
    """One character of punctuation; operators are not combined."""
    UNREADABLE = auto()
    """An unclosed quote or bracketed comment, up to the end of the text."""


class Token(NamedTuple):
    """One token of a text."""

    kind: TokenKind
    start: int
    """Offset in code points."""
    end: int
    word: str
    """The word in upper case, or the symbol; empty for other kinds."""


_QUOTED = frozenset({"STRING", "NAME", "PATH", "NUMBER"})


def tokenize(text: str, at: int = 0, skipped: re.Pattern[str] | None = None) -> Iterator[Token]:
    """Yield the tokens of a text in order, with comments, without white space. Never raise.

    Args:
        at: Offset of the first token.
        skipped: If given, a pattern of `skip_all_but`: text before a token that is not yielded.
    """
    while match := _match_token(text, at, skipped):
        group, (at, end) = match.lastgroup, match.span()
        if group == "WORD":
            yield Token(TokenKind.WORD, at, end, match[0].upper())
        elif group in _QUOTED:
            yield Token(TokenKind.QUOTED, at, end, "")
        elif group == "SYMBOL":
            if match[0] in "'\"`":
                yield Token(TokenKind.UNREADABLE, at, len(text), "")
                return
            yield Token(TokenKind.SYMBOL, at, end, match[0])
        elif group == "COMMENT":
            yield Token(TokenKind.COMMENT, at, end, "")
        elif group == "OPEN":
            comment_end = _comment_end(text, end)
            kind = TokenKind.UNREADABLE if comment_end is None else TokenKind.COMMENT
            end = len(text) if comment_end is None else comment_end
            yield Token(kind, at, end, "")
        at = end


def _match_token(text: str, at: int, skipped: re.Pattern[str] | None) -> re.Match[str] | None:
    if skipped is not None and (skip := skipped.match(text, at)):
        at = skip.end()
    return _TOKEN.match(text, at)


def skip_all_but(words: Collection[str]) -> re.Pattern[str]:
    """Return a pattern for text between tokens that matter: `;`, brackets and these words.

    It also skips a pair of brackets, and a pair in it, in which nothing matters, for example a row
    of literals. A text of some MiB has millions of tokens, and each takes more time and memory than
    a hundred characters of a match.
    """
    # A word is skipped as a whole token: not the `r` of a raw string, nor the begin of a path.
    word = r"(?!(?:[rR]['\"]|[0-9]+[eE][+-]))\w++(?!://)"
    flat = rf"""
        [^\w;()\[\]{{}}<>'"`/*.-]++ | {_NUMBER} | \.(?:{word})?+ | -(?!-) | /(?!\*) | \*(?!/)
      | (?!(?i:{"|".join(sorted(words))})(?!\w)){word} | {_STRING} | {_NAME}
    """
    row = flat
    for _level in range(2):
        row = rf"{flat} | \((?:{row})*+\)"
    # The limit lets other threads run between two matches.
    return re.compile(rf"(?:{row}){{0,{_SKIPPED_AT_ONCE}}}+", re.DOTALL | re.VERBOSE)


def code_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text without its comments."""
    return (token for token in tokenize(text) if token.kind is not TokenKind.COMMENT)


def _comment_end(text: str, at: int) -> int | None:
    """Return the end of the bracketed comment whose content begins at `at`. Comments nest."""
    depth = 1
    for match in _BRACKET.finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return None
