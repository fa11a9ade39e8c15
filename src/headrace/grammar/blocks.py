"""Where a scripting block (`BEGIN … END`) ends.

Follows the rules `compoundStatement` and below of Spark 4.1's `SqlBaseParser.g4`. Every statement
in a block ends with `;`, so an END that closes something begins a statement, and END, BEGIN or CASE
within a plain statement need no thought. Only in the heads (`IF … THEN`, `WHILE … DO`, `UNTIL …
END`) must names be told from keywords, since Spark takes nearly any keyword as a name: a keyword
that ends something follows an operand, a name stands where an operand is expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.grammar.tokens import Kind, Token

_HEADS = {"IF": "THEN", "CASE": "THEN", "WHILE": "DO", "FOR": "DO"}
_BRANCHES = {("IF", "ELSEIF"), ("CASE", "WHEN")}
_LABELLED = frozenset({"BEGIN", "LOOP", "REPEAT", "WHILE", "FOR"})
_KINDS = frozenset({"IF", "CASE", "WHILE", "FOR", "LOOP", "REPEAT"})

_OPERATORS = frozenset({"AND", "OR", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV"})
_CLAUSES = frozenset({"SELECT", "DISTINCT", "FROM", "WHERE", "HAVING", "BY", "ON", "JOIN", "USING"})
_BEFORE_OPERAND = (
    _OPERATORS | _CLAUSES | frozenset({"NOT", "IS", "ESCAPE", "AS", "WHEN", "THEN", "ELSE"})
)
"""Keywords that an operand or a name follows."""

_AFTER_NAME = (
    _OPERATORS | frozenset({"THEN", "DO", "IS", "FROM", "AS"}) | frozenset("=<>!*/%&|^.,)[;")
)
"""What shows that the CASE before it is a name."""


class _Open(NamedTuple):
    kind: str
    label: str


class _NotABlockError(Exception):
    """The tokens do not follow Spark's grammar of blocks."""


def block_end(code: Sequence[Token], first: int) -> int:
    """The index behind the END of the block that begins at `first`; `first` if none begins there.

    A block that nothing closes, or whose parts do not match, ends with the text.
    """
    reader = _BlockReader(code, first)
    if not reader.at_block():
        return first
    try:
        return reader.read()
    except _NotABlockError:
        return len(code)


class _BlockReader:
    """Reads one block, statement by statement; `at` stands at the start of the next."""

    def __init__(self, code: Sequence[Token], first: int) -> None:
        self._code = code
        self._at = first
        self._open: list[_Open] = []

    def at_block(self) -> bool:
        return self._word(self._label_length()) == "BEGIN"

    def read(self) -> int:
        self._statement()
        while self._open:
            self._statement()
        return self._at

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._code[at].word if at < len(self._code) else ""

    def _statement(self) -> None:
        if self._at >= len(self._code):
            raise _NotABlockError
        length = self._label_length()
        label = self._word() if length else ""
        self._at += length
        word = self._word()
        within = self._open[-1].kind if self._open else ""
        if word == "END":
            self._close()
        elif word in _KINDS or word == "BEGIN":
            self._open.append(_Open(word, label))
            self._at += 1
            self._enter(word)
        elif (within, word) in _BRANCHES:
            self._at += 1
            self._head("THEN")
        elif word == "UNTIL" and within == "REPEAT":
            self._at += 1
            self._head("END")
        elif word == "ELSE" and within in ("IF", "CASE"):
            self._at += 1
        elif word == "DECLARE" and self._word(2) == "HANDLER":
            self._handler()
        else:
            self._to_next()

    def _label_length(self) -> int:
        """How many tokens a `label:` before a block or loop takes."""
        length = 1
        if self._word() == "IDENTIFIER" and self._word(1) == "(":
            while self._word(length) not in (")", ";") and self._at + length < len(self._code):
                length += 1
            length += 1
        labelled = self._word(length) == ":" and self._word(length + 1) in _LABELLED
        return length + 1 if labelled else 0

    def _enter(self, kind: str) -> None:
        if kind in _HEADS:
            self._head(_HEADS[kind])
        elif kind == "BEGIN" and self._word() == "NOT" and self._word(1) == "ATOMIC":
            self._at += 2

    def _close(self) -> None:
        """Reads `END [kind] [label]` and, where something is still open, its `;`."""
        kind, label = self._open.pop()
        after = self._word(1)
        if kind == "BEGIN":
            if after in _KINDS and after != label:
                raise _NotABlockError
        elif after != kind:
            raise _NotABlockError
        self._at += 1
        if self._open:
            self._to_next()

    def _handler(self) -> None:
        """Reads `DECLARE … HANDLER FOR condition, …`, up to the statement that it runs."""
        self._at += 4
        more = True
        while more:
            if self._word() == "SQLSTATE":
                self._at += 2 if self._word(1) == "VALUE" else 1
                while self._quoted():
                    self._at += 1
            elif self._word() == "NOT":
                self._at += 2
            else:
                self._at += 1
                while self._word() == ".":
                    self._at += 2
            more = self._word() == ","
            self._at += more

    def _quoted(self) -> bool:
        return self._at < len(self._code) and self._code[self._at].kind is Kind.QUOTED

    def _to_next(self) -> None:
        """Goes behind the `;` that ends a plain statement."""
        while self._word() != ";":
            if self._at >= len(self._code):
                raise _NotABlockError
            self._at += 1
        self._at += 1

    def _head(self, stop: str) -> None:
        """Reads a condition or query up to the keyword behind it; goes behind THEN and DO."""
        head = _Head(stop)
        while self._at < len(self._code) and self._word() != ";":
            if head.ends_with(self._code[self._at], self._word(1)):
                self._at += stop != "END"
                return
            self._at += 1
        raise _NotABlockError


class _Head:
    """Follows an expression or a query token by token, and knows the keyword that ends it."""

    def __init__(self, stop: str) -> None:
        self._stop = stop
        self._operand_next = True
        self._field_next = False
        self._cases = [0]
        """CASE expressions open in each pair of brackets around the present token."""

    def ends_with(self, token: Token, following: str) -> bool:
        """Whether this token is the keyword that ends the head."""
        if token.kind is Kind.SYMBOL:
            self._symbol(token.word)
            return False
        field, self._field_next = self._field_next, False
        if token.kind is not Kind.WORD or field:
            self._operand_next = False
            return False
        if self._operand_next:
            self._at_operand(token.word, following)
            return False
        return self._after_operand(token.word)

    def _symbol(self, symbol: str) -> None:
        self._field_next = symbol in ".:"
        if symbol in "([":
            self._cases.append(0)
            self._operand_next = True
        elif symbol in ")]":
            if len(self._cases) > 1:
                self._cases.pop()
            self._operand_next = False
        elif symbol == "?" or (symbol == "*" and self._operand_next):
            self._operand_next = False
        else:
            self._operand_next = True

    def _at_operand(self, word: str, following: str) -> None:
        if word == "CASE" and following not in _AFTER_NAME:
            self._cases[-1] += 1
        elif word not in _BEFORE_OPERAND:
            self._operand_next = False

    def _after_operand(self, word: str) -> bool:
        if word == "END" and self._cases[-1]:
            self._cases[-1] -= 1
        elif word == self._stop and self._cases == [0]:
            return True
        else:
            self._operand_next = word in _BEFORE_OPERAND
        return False
