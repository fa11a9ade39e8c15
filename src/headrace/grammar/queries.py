"""Which texts are pure queries: they can change nothing, whoever runs them and how often."""

from __future__ import annotations

from headrace.grammar.tokens import TokenKind, code_tokens

_ALWAYS = frozenset({"SELECT", "VALUES"})
_MOSTLY = frozenset({"WITH", "FROM", "TABLE", "("})
_CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})


def is_query(text: str) -> bool:
    """Whether a text is a query beyond doubt, told by its words alone.

    `WITH … INSERT` and `FROM … INSERT` are none. In doubt the answer is no: a column of the name
    `update`, or `${…}`, behind which anything may stand.
    """
    if "${" in text:
        return False
    found = code_tokens(text)
    first = next(found, None)
    if first is None or first.word not in _ALWAYS | _MOSTLY:
        return False
    rest = list(found)
    if any(token.kind is TokenKind.UNREADABLE for token in rest):
        return False
    return first.word in _ALWAYS or all(token.word not in _CHANGING for token in rest)
