"""The words that name what a statement does, for a short report of its end."""

from __future__ import annotations

from headrace.grammar.lexer import TokenKind, code_tokens

_DEFINITIONS = frozenset({"CREATE", "DROP", "ALTER", "SHOW", "DESCRIBE", "REFRESH", "SAVE"})
_MODIFIERS = frozenset({"OR", "REPLACE", "GLOBAL", "TEMPORARY", "TEMP", "EXTERNAL", "EXTENDED"})
_OBJECTS = frozenset(
    {
        *("CATALOG", "DATABASE", "FUNCTION", "FUNCTIONS", "INDEX", "NAMESPACE", "PROCEDURE"),
        *("SCHEMA", "SINK", "STREAM", "TABLE", "TABLES", "VARIABLE", "VIEW", "VIEWS"),
    }
)
_WORDS = 8
"""Words of a statement in which its verb and object stand."""


def describe_verb(text: str) -> str:
    """Return the words of a statement that name it, for example `CREATE TABLE` or `INSERT`.

    Return an empty string if it does not begin with a word.
    """
    words: list[str] = []
    for token in code_tokens(text):
        if token.kind is not TokenKind.WORD or len(words) == _WORDS:
            break
        words.append(token.word)
    if not words:
        return ""
    verb, *others = words
    if verb not in _DEFINITIONS:
        return verb
    names = [word for word in others if word not in _MODIFIERS]
    if names[:2] == ["MATERIALIZED", "VIEW"]:
        return f"{verb} MATERIALIZED VIEW"
    return f"{verb} {names[0]}" if names and names[0] in _OBJECTS else verb
