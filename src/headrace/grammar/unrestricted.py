"""Statements that change all rows of a table, perhaps by a slip: an editor asks before it runs one.

The words of a text tell enough for a question to a user. Spark decides what a statement does.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.grammar.lexer import Token, TokenKind, code_tokens

_OPEN, _CLOSED = frozenset("(["), frozenset(")]")


def find_unrestricted(text: str) -> str | None:
    """Return the table that a DELETE or UPDATE without WHERE, or a TRUNCATE or DROP, changes whole.

    The statement may stand behind common table expressions. None: it is another one.
    """
    tokens = _outside_brackets(list(code_tokens(text)))
    words = [token.word if token.kind is TokenKind.WORD else "" for token in tokens]
    begin = _find_begin(words)
    if begin is None:
        return None
    rest = words[begin:]
    if rest[0] in {"DELETE", "UPDATE"} and "WHERE" in rest:
        return None
    kept = {"DELETE": 2 if rest[1:2] == ["FROM"] else 1, "UPDATE": 1}
    skipped = kept.get(rest[0], 4 if rest[2:4] == ["IF", "EXISTS"] else 2)
    return _read_name(text, tokens[begin + skipped :])


def _find_begin(words: Sequence[str]) -> int | None:
    if not words:
        return None
    if words[0] == "WITH":
        return next((at for at, word in enumerate(words) if word in {"DELETE", "UPDATE"}), None)
    is_whole = words[0] in {"TRUNCATE", "DROP"} and words[1:2] == ["TABLE"]
    return 0 if is_whole or words[0] in {"DELETE", "UPDATE"} else None


def _outside_brackets(tokens: Sequence[Token]) -> list[Token]:
    depth, found = 0, list[Token]()
    for token in tokens:
        if token.word in _OPEN:
            depth += 1
        elif token.word in _CLOSED:
            depth -= 1
        elif depth <= 0:
            found.append(token)
    return found


def _read_name(text: str, tokens: Sequence[Token]) -> str | None:
    """Return the name with its dots at the begin of tokens; None: there is none."""
    end, is_part = 0, False
    for token in tokens:
        is_name = token.kind in {TokenKind.WORD, TokenKind.QUOTED}
        if is_name == is_part or not (is_name or token.word == "."):
            break
        end, is_part = token.end, is_name
    return text[tokens[0].start : end] if end else None
