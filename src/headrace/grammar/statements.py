"""Which statements are Headrace's own: told by their first words, everything else is Spark's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from headrace.errors import MultipleStatements, ReservedStatement
from headrace.grammar.splitter import statement_starts
from headrace.grammar.text import position_at
from headrace.grammar.tokens import code_tokens

_RESERVED = {
    tuple(name.split()): name
    for name in (
        "CREATE STREAM",
        "CREATE SINK",
        "SAVE STREAM",
        "STOP STREAM",
        "RESTART STREAM",
        "SHOW STREAMS",
        "SHOW STREAM",
        "DROP STREAM",
        "CANCEL STATEMENT",
        "CREATE MATERIALIZED VIEW",
        "REFRESH MATERIALIZED VIEW",
        "DROP MATERIALIZED VIEW",
        "SHOW MATERIALIZED VIEWS",
    )
}
_LONGEST = 3
_LOCAL = "CANCEL STATEMENT"


@dataclass(frozen=True, slots=True)
class Classified:
    """What the first words of a statement say."""

    reserved: str | None
    """The reserved statement, e.g. `SAVE STREAM`; None for one of Spark's."""
    offset: int
    """Where its first word stands, in code points; 0 in an empty text."""


def classify(text: str, *, reserved: bool = True) -> Classified:
    """Tells a statement by its first words. With `reserved=False` all are Spark's."""
    first = list(islice(code_tokens(text), _LONGEST))
    words = tuple(token.word for token in first)
    name = None
    if reserved:
        name = next(
            (_RESERVED[words[:n]] for n in range(2, len(words) + 1) if words[:n] in _RESERVED), None
        )
    return Classified(name, first[0].start if first else 0)


def is_local(text: str) -> bool:
    """Whether a node does it by itself."""
    return classify(text).reserved == _LOCAL


def refuse_reserved(text: str) -> None:
    """Raises ReservedStatement, with its position, for what this version does not run."""
    found = classify(text)
    if found.reserved not in {None, _LOCAL}:
        raise ReservedStatement(
            f"{found.reserved} is reserved for Headrace, and this version does not run it.",
            position=position_at(text, found.offset),
            hint="With the setting `reserved_statements = false` it goes to Spark as it is.",
        )


def single(text: str) -> None:
    """Raises MultipleStatements, with the position of the second, unless a text holds just one.

    A `;` after it, or several, are fine.
    """
    first = statement_starts(text)
    if len(first) > 1:
        raise MultipleStatements(
            f"The text holds {len(first)} statements; one submit takes one.",
            position=position_at(text, first[1].start),
            hint="Send them one by one. A path that holds `;` needs quotes: ADD JAR '/a;b.jar'.",
        )
