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

from headrace.grammar.tokens import Token, TokenKind

_HEADS = {"IF": "THEN", "CASE": "THEN", "WHILE": "DO", "FOR": "DO"}
_BRANCHES = {("IF", "ELSEIF"), ("CASE", "WHEN")}
_LABELLED = frozenset({"BEGIN", "LOOP", "REPEAT", "WHILE", "FOR"})
_BEFORE_PARAMETER = frozenset(
    {"SELECT", "VALUES", "IF", "ELSEIF", "CASE", "WHEN", "WHILE", "UNTIL"}
)
"""Behind one of these, `:loop` as in `SELECT :loop` is a parameter; `select: LOOP` is a label."""
_KINDS = frozenset({"IF", "CASE", "WHILE", "FOR", "LOOP", "REPEAT"})

_OPERATORS = frozenset({"AND", "OR", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV"})
_CLAUSES = frozenset({"SELECT", "FROM", "WHERE", "HAVING", "BY", "ON", "JOIN", "USING", "EXTEND"})
_AFTER_OPERAND = _OPERATORS | _CLAUSES | frozenset({"IS", "AS", "ESCAPE", "DISTINCT"})
"""Keywords that stand behind an operand and before the next one."""
_QUERY_BEGINS = frozenset({"(", "AS", "|>"})
"""What a clause may follow at once; elsewhere SELECT or FROM is a name where an operand begins."""
_BEHIND_NAME = (
    _OPERATORS | _CLAUSES | {"THEN", "ELSE", "DO", "IS", "AS"} | frozenset("=<>!*/%&|^.,)[;")
)
"""What shows that the word before it is a name, NOT and CASE included."""


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
        if labelled and self._word() in _BEFORE_PARAMETER:
            before, colon, behind = self._code[self._at : self._at + 3]
            labelled = before.end == colon.start or colon.end != behind.start
        return length + 1 if labelled else 0

    def _enter(self, kind: str) -> None:
        if kind in _HEADS:
            begins = {"FOR": "(", "CASE": "CASE"}.get(kind, "")
            self._head(_HEADS[kind], begins)
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
        return self._at < len(self._code) and self._code[self._at].kind is TokenKind.QUOTED

    def _to_next(self) -> None:
        """Goes behind the `;` that ends a plain statement."""
        while self._word() != ";":
            if self._at >= len(self._code):
                raise _NotABlockError
            self._at += 1
        self._at += 1

    def _head(self, stop: str, begins: str = "") -> None:
        """Reads a condition or query up to the keyword behind it; goes behind THEN and DO."""
        head = _Head(stop, begins)
        while self._at < len(self._code) and self._word() != ";":
            if head.ends_with(self._code[self._at], self._word(1)):
                self._at += stop != "END"
                return
            self._at += 1
        raise _NotABlockError


class _Head:
    """Follows an expression or a query token by token, and knows the keyword that ends it."""

    def __init__(self, stop: str, begins: str) -> None:
        self._stop = stop
        self._last = begins
        """The keyword or symbol before the present token; empty behind a name or value."""
        self._operand_next = True
        self._cases = [0]
        """CASE expressions open in each pair of brackets around the present token."""

    def ends_with(self, token: Token, following: str) -> bool:
        """Whether this token is the keyword that ends the head."""
        word = token.word
        if token.kind is TokenKind.SYMBOL:
            self._symbol(word)
        elif token.kind is not TokenKind.WORD or self._last in (".", ":"):
            self._take("", operand_next=False)
        elif self._operand_next:
            keyword = self._keyword_at_operand(word, following)
            self._cases[-1] += keyword and word == "CASE"
            self._take(word if keyword else "", operand_next=keyword)
        elif word == "END" and self._cases[-1]:
            self._cases[-1] -= 1
        elif word == self._stop and self._cases == [0]:
            return True
        else:
            keyword = self._keyword_behind_operand(word)
            self._take(word if keyword else "", operand_next=keyword)
        return False

    def _take(self, last: str, *, operand_next: bool) -> None:
        self._last, self._operand_next = last, operand_next

    def _symbol(self, symbol: str) -> None:
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
        self._take("|>" if pipe else symbol, operand_next=operand_next)

    def _keyword_at_operand(self, word: str, following: str) -> bool:
        if word == "WHEN":
            return self._last == "CASE"
        if word in _CLAUSES:
            return self._last in _QUERY_BEGINS
        if word in ("DISTINCT", "ALL"):
            return self._last in ("SELECT", "(")
        return word in ("CASE", "NOT") and following not in _BEHIND_NAME

    def _keyword_behind_operand(self, word: str) -> bool:
        if word in ("WHEN", "THEN", "ELSE"):
            return self._cases != [0] or (word == "WHEN" and self._stop == "THEN")
        return word in _AFTER_OPERAND
