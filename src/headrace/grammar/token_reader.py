"""Reader of the tokens of a statement of Headrace's own.

The reader remembers which words it was asked for at the current token. An error therefore lists
everything that the statement allows there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.errors import PARSE_SYNTAX_ERROR, SYNTAX_SQLSTATE, InvalidStatement
from headrace.grammar.lexer import Token, TokenKind
from headrace.grammar.quoting import unquote_name, unquote_string
from headrace.grammar.text import position_at

T = TypeVar("T")
_END = "the end of the statement"


class TokenReader:
    """Reads tokens in order. Every error is an InvalidStatement with a position."""

    def __init__(self, text: str, tokens: Sequence[Token], *, first: int = 0) -> None:
        """Begin to read.

        Args:
            text: The text of the statement.
            tokens: Its tokens, without comments and `;`.
            first: Index of the first token to read.
        """
        self._text = text
        self._tokens = tokens
        self._at = first
        self._expected: dict[str, None] = {}

    @property
    def offset(self) -> int:
        """Offset of the current token in the text, in code points."""
        token = self._token()
        if token is not None:
            return token.start
        return self._tokens[-1].end if self._tokens else 0

    def accept(self, *words: str) -> bool:
        """Skip these keywords or symbols if they come next; return whether they do."""
        self._expected[" ".join(words)] = None
        following = tuple(token.word for token in self._tokens[self._at : self._at + len(words)])
        if following != words:
            return False
        self._advance(len(words))
        return True

    def comes(self, symbol: str) -> bool:
        """Return whether this symbol comes next."""
        self._expected[symbol] = None
        return self._has_symbol(symbol)

    def comes_string(self) -> bool:
        """Return whether a string literal comes next."""
        token = self._token()
        return token is not None and self._is_string(token)

    def expect(self, *words: str) -> None:
        """Skip these keywords or symbols, which must come next."""
        if not self.accept(*words):
            raise self.unexpected()

    def expect_end(self) -> None:
        """Check that the statement ends here."""
        self._expected[_END] = None
        if self._token() is not None:
            raise self.unexpected()

    def read_identifier(self, meaning: str, *, may_be_blank: bool = False) -> str:
        """Return a plain or quoted identifier.

        Args:
            meaning: What the identifier names, for errors, for example `the name of a stream`.
            may_be_blank: Whether the identifier can consist of spaces, as that of a column can.
        """
        token = self._token()
        if token is None or not self._is_identifier(token):
            self._expected[meaning] = None
            raise self.unexpected()
        name = unquote_name(self._slice(token))
        if not (may_be_blank or name.strip()):
            raise self.error(f"The name {self._slice(token)} is blank. Expected: {meaning}.")
        self._advance()
        return name

    def read_qualified_name(self, meaning: str) -> tuple[str, ...]:
        """Return the parts of a name such as `db.table`."""
        parts = [self.read_identifier(meaning)]
        while self._has_symbol("."):
            self._advance()
            parts.append(self.read_identifier(f"{meaning} after the dot"))
        return tuple(parts)

    def read_string(self, meaning: str) -> str:
        """Return the value of a string literal."""
        token = self._token()
        if token is None or not self._is_string(token):
            self._expected[meaning] = None
            raise self.unexpected()
        self._advance()
        return unquote_string(self._slice(token))

    def read_count(self, meaning: str) -> int:
        """Return an integer without a sign."""
        token = self._token()
        if token is None or not (token.kind is TokenKind.WORD and token.word.isdecimal()):
            self._expected[meaning] = None
            raise self.unexpected()
        self._advance()
        return int(token.word)

    def read_option_key(self) -> str:
        """Return the key of an option: a string, or names with dots."""
        token = self._token()
        if token is not None and self._is_string(token):
            return self.read_string("the key of an option")
        return ".".join(self.read_qualified_name("the key of an option"))

    def read_option_value(self, meaning: str) -> str:
        """Return the value of an option: a string, a number, TRUE or FALSE."""
        token = self._token()
        if token is not None and token.kind is TokenKind.WORD:
            if token.word in ("TRUE", "FALSE"):
                self._advance()
                return token.word.lower()
            if token.word.isdecimal():
                return self._read_number()
        return self.read_string(meaning)

    def _read_number(self) -> str:
        first = last = self._tokens[self._at]
        self._advance()
        if self._has_symbol("."):
            self._advance()
            self.read_count("digits after the decimal point")
            last = self._tokens[self._at - 1]
        return self._text[first.start : last.end]

    def read_word(self, meaning: str, allowed: Sequence[str]) -> str:
        """Return a keyword, which must be one of `allowed`, in upper case."""
        for word in allowed:
            if self.accept(word):
                return word
        self._expected = {f"{meaning}: {', '.join(allowed)}": None}
        raise self.unexpected()

    def read_list(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Return the items of a list in parentheses. The list has at least one item."""
        self.expect("(")
        items = [read()]
        while not self.accept(")"):
            self.expect(",")
            items.append(read())
        return tuple(items)

    def read_until(self, *ends: str, meaning: str, brackets: str = "()<>[]") -> str:
        """Return the text up to one of these symbols outside brackets, which is not skipped.

        Args:
            brackets: Pairs of an opening and a closing bracket.
        """
        opening, closing = tuple(brackets[::2]), tuple(brackets[1::2])
        first, depth = self._token(), 0
        last = first
        while (token := self._token()) is not None and (depth > 0 or token.word not in ends):
            depth += (token.word in opening) - (token.word in closing)
            last = token
            self._advance()
        if first is None or last is None or self._token() is first:
            self._expected[meaning] = None
            raise self.unexpected()
        return self._text[first.start : last.end]

    def read_rest(self, meaning: str) -> str:
        """Return the text from the current token to the end, without a final `;`."""
        token = self._token()
        if token is None:
            self._expected[meaning] = None
            raise self.unexpected()
        self._at = len(self._tokens)
        return self._text[token.start : self._tokens[-1].end]

    def unexpected(self) -> InvalidStatement:
        """Return the error that the current token, or the end, is not what may come next."""
        token = self._token()
        subject = "The statement ends too early" if token is None else None
        subject = subject or f"{self._slice(token)!r} is not expected here"
        error = self.error(f"{subject}. Expected: {', '.join(self._expected)}.")
        return error.with_condition(PARSE_SYNTAX_ERROR, SYNTAX_SQLSTATE)

    def error(self, message: str, *, offset: int | None = None) -> InvalidStatement:
        """Return an error at an offset; the default is the current token."""
        at = self.offset if offset is None else offset
        return InvalidStatement(message, position=position_at(self._text, at))

    def _token(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _advance(self, count: int = 1) -> None:
        self._at += count
        self._expected = {}

    def _slice(self, token: Token | None) -> str:
        return "" if token is None else self._text[token.start : token.end]

    def _has_symbol(self, symbol: str) -> bool:
        token = self._token()
        return token is not None and token.word == symbol

    def _is_identifier(self, token: Token) -> bool:
        if token.kind is TokenKind.WORD:
            return not token.word.isdecimal()
        return token.kind is TokenKind.QUOTED and self._text[token.start] == "`"

    def _is_string(self, token: Token) -> bool:
        return token.kind is TokenKind.QUOTED and self._text[token.start] in "'\"rR"
