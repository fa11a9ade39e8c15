"""The names of the tables and views that a query reads, found in its text.

Spark is not asked: the plan of a batch job needs no driver. No name may be missing. A name too many
does little harm, because the plan shows the names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.grammar.lexer import Token, TokenKind, code_tokens
from headrace.grammar.quoting import unquote_name

_ENDS_OF_FROM = frozenset(
    {
        *("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"),
        *("WINDOW", "QUALIFY", "UNION", "EXCEPT", "INTERSECT", "MINUS", "SELECT", "VIEW", "VALUES"),
    }
)
_BEFORE_TABLES = frozenset({"LATERAL", "TABLE"})
_NO_RELATIONS = _BEFORE_TABLES | {"SELECT", "WITH", "VALUES", "FROM"}
"""Words that can follow FROM, JOIN, a comma or `(`. Other keywords can be names of tables."""
_FUNCTIONS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})


def list_read_names(text: str) -> list[tuple[str, ...]]:
    """Return the parts of the names of tables and views in a query, in the order of the text."""
    return _RelationReader(text).read()


@dataclass(slots=True)
class _Brackets:
    """What is known of the text within a pair of brackets, or of the whole text."""

    in_from: bool = False
    """Whether a comma precedes a further relation."""
    expects_relation: bool = False
    is_call: bool = False
    """Whether it has the arguments of a function that are separated by FROM."""
    cte_body_of: str | None = None
    """The name that the text defines, if it is the body of a common table expression."""
    ctes: set[str] = field(default_factory=set)
    expects_cte: bool = False
    cte: str | None = None
    """The common table expression whose body comes next."""


class _RelationReader:
    """Reads the names of relations in one text, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(code_tokens(text))
        self._at = 0
        self._stack = [_Brackets()]
        self._names: list[tuple[str, ...]] = []
        self._symbols: dict[str, Callable[[], None]] = {
            "(": self._open,
            ")": self._close,
            ",": self._separate,
            "|": self._end_from,
        }

    def read(self) -> list[tuple[str, ...]]:
        while self._at < len(self._tokens):
            token, state = self._tokens[self._at], self._stack[-1]
            if token.kind is TokenKind.SYMBOL:
                self._symbols.get(token.word, lambda: None)()
                self._at += 1
            elif state.expects_relation and self._is_relation(token):
                self._read_relation(state)
            elif state.expects_cte:
                self._read_cte(state, token)
            else:
                self._read_word(state, token)
        return self._names

    def _word(self, offset: int) -> str:
        """Return the word or symbol of a token, by its distance from the current one."""
        at = self._at + offset
        return self._tokens[at].word if 0 <= at < len(self._tokens) else ""

    def _is_relation(self, token: Token) -> bool:
        if token.kind is TokenKind.QUOTED:
            return self._text[token.start] in '`"'
        return token.word not in _NO_RELATIONS

    def _read_part(self) -> str:
        token = self._tokens[self._at]
        text = self._text[token.start : token.end]
        return text[1:-1] if text.startswith('"') else unquote_name(text)

    def _read_relation(self, state: _Brackets) -> None:
        state.expects_relation = False
        parts = [self._read_part()]
        while self._word(1) == "." and self._at + 2 < len(self._tokens):
            self._at += 2
            parts.append(self._read_part())
        self._at += 1
        is_function = self._word(0) == "("
        if not is_function and not self._is_cte(parts):
            self._names.append(tuple(parts))

    def _is_cte(self, parts: list[str]) -> bool:
        return len(parts) == 1 and any(parts[0].casefold() in each.ctes for each in self._stack)

    def _read_cte(self, state: _Brackets, token: Token) -> None:
        if token.word == "RECURSIVE":
            # Its body may read itself.
            following = self._tokens[self._at + 1 : self._at + 2]
            state.ctes |= {
                unquote_name(self._text[each.start : each.end]).casefold() for each in following
            }
        else:
            state.expects_cte, state.cte = False, self._read_part()
        self._at += 1

    def _read_word(self, state: _Brackets, token: Token) -> None:
        word = token.word
        is_column = self._word(-1) == "."
        if not is_column and self._begins_relation(state, word):
            state.expects_relation = True
            state.in_from |= word == "FROM"
        elif not is_column and word == "WITH":
            self._end_from()
            state.expects_cte = True
        elif not is_column and word in _ENDS_OF_FROM:
            self._end_from()
        self._at += 1

    def _begins_relation(self, state: _Brackets, word: str) -> bool:
        if word == "FROM":
            compares = self._word(-1) == "DISTINCT" and self._word(-2) in {"IS", "NOT"}
            return not compares and not state.is_call
        is_view = word == "LATERAL" and self._word(1) == "VIEW"
        return word == "JOIN" or (word in _BEFORE_TABLES and not is_view)

    def _end_from(self) -> None:
        state = self._stack[-1]
        state.in_from = state.expects_relation = False
        # A query within the arguments of a function.
        state.is_call &= self._word(0) != "SELECT"

    def _open(self) -> None:
        state = self._stack[-1]
        inner = _Brackets(
            expects_relation=state.expects_relation,
            in_from=state.expects_relation,
            is_call=self._word(-1) in _FUNCTIONS_WITH_FROM,
        )
        if state.cte is not None and self._word(-1) == "AS":
            inner.cte_body_of, state.cte = state.cte, None
        state.expects_relation = False
        self._stack.append(inner)

    def _close(self) -> None:
        if len(self._stack) == 1:
            return
        inner, state = self._stack.pop(), self._stack[-1]
        if inner.cte_body_of is not None:
            state.ctes.add(inner.cte_body_of.casefold())
            state.expects_cte = self._word(1) == ","

    def _separate(self) -> None:
        state = self._stack[-1]
        state.expects_relation |= state.in_from
