"""The end of a scripting block (`BEGIN … END`).

The code follows `compoundStatement` and the rules below it in Spark 4.1's `SqlBaseParser.g4`. Every
statement in a block ends with `;`, so an END that closes a block begins a statement, and END, BEGIN
or CASE inside a plain statement can be ignored. Only in the heads (`IF … THEN`, `WHILE … DO`,
`UNTIL … END`) must names be distinguished from keywords, because Spark accepts nearly any keyword
as a name: a keyword that ends a head follows an operand, and a name stands where an operand is
expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.grammar.lexer import Token, TokenKind

_HEADS = {"IF": "THEN", "CASE": "THEN", "WHILE": "DO", "FOR": "DO"}
_BRANCHES = {("IF", "ELSEIF"), ("CASE", "WHEN")}
_LABELLED = frozenset({"BEGIN", "LOOP", "REPEAT", "WHILE", "FOR"})
_BEFORE_PARAMETER = frozenset(
    {"SELECT", "VALUES", "IF", "ELSEIF", "CASE", "WHEN", "WHILE", "UNTIL"}
)
"""After one of these words, `:loop` is a parameter (`SELECT :loop`), not a label."""
_KINDS = frozenset({"IF", "CASE", "WHILE", "FOR", "LOOP", "REPEAT"})

_OPERATORS = frozenset({"AND", "OR", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV"})
_CLAUSES = frozenset({"SELECT", "FROM", "WHERE", "HAVING", "BY", "ON", "JOIN", "USING", "EXTEND"})
_AFTER_OPERAND = _OPERATORS | _CLAUSES | frozenset({"IS", "AS", "ESCAPE", "DISTINCT"})
"""Keywords that stand between two operands."""
_QUERY_BEGINS = frozenset({"(", "AS", "|>"})
"""Tokens that a clause can follow directly. After any other token, SELECT or FROM is a name."""
_AFTER_NAME = (
    _OPERATORS | _CLAUSES | {"THEN", "ELSE", "DO", "IS", "AS"} | frozenset("=<>!*/%&|^.,)[;")
)
"""Tokens after which the previous word must be a name, even if it is NOT or CASE."""


class _OpenBlock(NamedTuple):
    """A block whose END has not been read."""

    kind: str
    label: str


class _NotABlockError(Exception):
    """The tokens do not follow Spark's grammar for blocks."""


def block_end(code: Sequence[Token], first: int) -> int:
    """Return the index after the END of the block that begins at index `first`.

    Return `first` if no block begins there. An unclosed block ends with the text, and so does a
    block whose parts do not match.
    """
    reader = _BlockReader(code, first)
    if not reader.is_at_block():
        return first
    try:
        return reader.read()
    except _NotABlockError:
        return len(code)


class _BlockReader:
    """Reader of one block. Its index points at the start of the next statement."""

    def __init__(self, code: Sequence[Token], first: int) -> None:
        self._code = code
        self._at = first
        self._open_blocks: list[_OpenBlock] = []

    def is_at_block(self) -> bool:
        return self._word(self._label_length()) == "BEGIN"

    def read(self) -> int:
        self._read_statement()
        while self._open_blocks:
            self._read_statement()
        return self._at

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._code[at].word if at < len(self._code) else ""

    def _read_statement(self) -> None:
        if self._at >= len(self._code):
            raise _NotABlockError
        length = self._label_length()
        label = self._word() if length else ""
        self._at += length
        word = self._word()
        enclosing = self._open_blocks[-1].kind if self._open_blocks else ""
        if word == "END":
            self._read_end()
        elif word in _KINDS or word == "BEGIN":
            self._open_blocks.append(_OpenBlock(word, label))
            self._at += 1
            self._enter(word)
        elif (enclosing, word) in _BRANCHES:
            self._at += 1
            self._read_head("THEN")
        elif word == "UNTIL" and enclosing == "REPEAT":
            self._at += 1
            self._read_head("END")
        elif word == "ELSE" and enclosing in ("IF", "CASE"):
            self._at += 1
        elif word == "DECLARE" and self._word(2) == "HANDLER":
            self._read_handler()
        else:
            self._skip_statement()

    def _label_length(self) -> int:
        """Return the number of tokens of a `label:` before a block or loop; 0 without a label."""
        length = 1
        if self._word() == "IDENTIFIER" and self._word(1) == "(":
            while self._word(length) not in (")", ";") and self._at + length < len(self._code):
                length += 1
            length += 1
        labelled = self._word(length) == ":" and self._word(length + 1) in _LABELLED
        if labelled and self._word() in _BEFORE_PARAMETER:
            before, colon, behind = self._code[self._at : self._at + 3]
            labelled = before.end == colon.start or colon.end != behind.start
        return length + 1 if labelled else 0

    def _enter(self, kind: str) -> None:
        if kind in _HEADS:
            begins = {"FOR": "(", "CASE": "CASE"}.get(kind, "")
            self._read_head(_HEADS[kind], begins)
        elif kind == "BEGIN" and self._word() == "NOT" and self._word(1) == "ATOMIC":
            self._at += 2

    def _read_end(self) -> None:
        """Read `END [kind] [label]` and, inside another block, its `;`."""
        kind, label = self._open_blocks.pop()
        after = self._word(1)
        if kind == "BEGIN":
            if after in _KINDS and after != label:
                raise _NotABlockError
        elif after != kind:
            raise _NotABlockError
        self._at += 1
        if self._open_blocks:
            self._skip_statement()

    def _read_handler(self) -> None:
        """Read `DECLARE … HANDLER FOR condition, …`, up to the statement of the handler."""
        self._at += 4
        more = True
        while more:
            if self._word() == "SQLSTATE":
                self._at += 2 if self._word(1) == "VALUE" else 1
                while self._is_quoted():
                    self._at += 1
            elif self._word() == "NOT":
                self._at += 2
            else:
                self._at += 1
                while self._word() == ".":
                    self._at += 2
            more = self._word() == ","
            self._at += more

    def _is_quoted(self) -> bool:
        return self._at < len(self._code) and self._code[self._at].kind is TokenKind.QUOTED

    def _skip_statement(self) -> None:
        """Skip a plain statement and its `;`."""
        while self._word() != ";":
            if self._at >= len(self._code):
                raise _NotABlockError
            self._at += 1
        self._at += 1

    def _read_head(self, stop: str, begins: str = "") -> None:
        """Read a condition or query up to the keyword that ends it; skip THEN and DO."""
        head = _Head(stop, begins)
        while self._at < len(self._code) and self._word() != ";":
            if head.ends_with(self._code[self._at], self._word(1)):
                self._at += stop != "END"
                return
            self._at += 1
        raise _NotABlockError


class _Head:
    """Scanner of an expression or query that recognises the keyword that ends it."""

    def __init__(self, stop: str, begins: str) -> None:
        self._stop = stop
        self._last = begins
        """Keyword or symbol before the current token; empty after a name or value."""
        self._operand_next = True
        self._cases = [0]
        """Number of open CASE expressions in each pair of brackets around the current token."""

    def ends_with(self, token: Token, following: str) -> bool:
        """Scan one token; return whether it is the keyword that ends the head."""
        word = token.word
        if token.kind is TokenKind.SYMBOL:
            self._scan_symbol(word)
        elif token.kind is not TokenKind.WORD or self._last in (".", ":"):
            self._advance("", operand_next=False)
        elif self._operand_next:
            keyword = self._is_keyword_before_operand(word, following)
            self._cases[-1] += keyword and word == "CASE"
            self._advance(word if keyword else "", operand_next=keyword)
        elif word == "END" and self._cases[-1]:
            self._cases[-1] -= 1
        elif word == self._stop and self._cases == [0]:
            return True
        else:
            keyword = self._is_keyword_after_operand(word)
            self._advance(word if keyword else "", operand_next=keyword)
        return False

    def _advance(self, last: str, *, operand_next: bool) -> None:
        self._last, self._operand_next = last, operand_next

    def _scan_symbol(self, symbol: str) -> None:
        operand_next = True
        if symbol in ("(", "["):
            self._cases.append(0)
        elif symbol in (")", "]"):
            if len(self._cases) > 1:
                self._cases.pop()
            operand_next = False
        elif symbol == "?" or (symbol == "*" and self._operand_next):
            operand_next = False
        pipe = symbol == ">" and self._last == "|"
        self._advance("|>" if pipe else symbol, operand_next=operand_next)

    def _is_keyword_before_operand(self, word: str, following: str) -> bool:
        if word == "WHEN":
            return self._last == "CASE"
        if word in _CLAUSES:
            return self._last in _QUERY_BEGINS
        if word in ("DISTINCT", "ALL"):
            return self._last in ("SELECT", "(")
        return word in ("CASE", "NOT") and following not in _AFTER_NAME

    def _is_keyword_after_operand(self, word: str) -> bool:
        if word in ("WHEN", "THEN", "ELSE"):
            return self._cases != [0] or (word == "WHEN" and self._stop == "THEN")
        return word in _AFTER_OPERAND
