"""What to write on Spark in place of the DDL of Flink, which users of its SQL runner have."""

from __future__ import annotations

from headrace.grammar.lexer import Token, TokenKind, code_tokens

_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME"})
_TABLE = (
    "a table that jobs read is CREATE STREAM name (column type, …) FROM kafka"
    " OPTIONS ('subscribe' = 'topic', 'kafka.bootstrap.servers' = 'host:port'), and one that they"
    " write is CREATE SINK name TO kafka OPTIONS ('topic' = 'topic', …), in place of"
    " WITH ('connector' = …)"
)
_WATERMARK = (
    "a watermark belongs to the query: FROM STREAM t WATERMARK c DELAY OF INTERVAL 5 SECONDS"
)


def explain_flink_ddl(text: str) -> str | None:
    """Return what to write in place of Flink's clauses in a CREATE TABLE; None if it has none."""
    tokens = list(code_tokens(text))
    words = [token.word for token in tokens]
    if "CREATE" not in words[:1] or "TABLE" not in words[:4]:
        return None
    advice = list[str]()
    if any(_has_precision(words, at) for at in range(len(words))):
        advice.append("the types of time have no precision: TIMESTAMP in place of TIMESTAMP(3)")
    if any(words[at : at + 2] == ["WATERMARK", "FOR"] for at in range(len(words))):
        advice.append(_WATERMARK)
    if any(_begins_properties(text, tokens, at) for at in range(len(tokens))):
        advice.append(_TABLE)
    return f"This is the DDL of Flink. On Spark, {'; '.join(advice)}." if advice else None


def _has_precision(words: list[str], at: int) -> bool:
    window = words[at : at + 4]
    if len(window) < 4:
        return False
    name, begin, digits, end = window
    return name in _TIMES and (begin, end) == ("(", ")") and digits.isdecimal()


def _begins_properties(text: str, tokens: list[Token], at: int) -> bool:
    """Return whether `WITH ('key' = …` begins here."""
    window = tokens[at : at + 3]
    if [token.word for token in window[:2]] != ["WITH", "("] or len(window) < 3:
        return False
    key = window[2]
    return key.kind is TokenKind.QUOTED and text[key.start] == "'"
