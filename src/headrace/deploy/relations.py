"""The order in which the streams and temporary views of a job are created.

A driver first runs the statements of Spark's own, then opens the streams. A temporary view over a
stream must follow the streams that it reads, and a stream can read such a view.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.deploy.names import MentionedNames, fold_name
from headrace.grammar.lexer import code_tokens
from headrace.grammar.parse import parse
from headrace.grammar.quoting import unquote_name
from headrace.grammar.stream_statements import CreateStream, CreateStreamAs

_TEMPORARY = frozenset({"TEMPORARY", "TEMP"})
_MODIFIERS = frozenset({"OR", "REPLACE", "GLOBAL", "LOCAL"}) | _TEMPORARY


@dataclass(frozen=True, slots=True)
class OrderedRelations:
    """The statements that a job needs before its query, in the order in which they run."""

    setup: list[str]
    """Statements of Spark's own."""
    streams: list[str]
    """Streams, and the temporary views over them, each after those it reads."""


@dataclass(frozen=True, slots=True)
class _Relation:
    text: str
    parts: tuple[str, ...]
    mentioned: MentionedNames
    is_stream: bool


def order_relations(statements: Iterable[str]) -> OrderedRelations:
    """Order the statements of a job: CREATE STREAM, and statements of Spark's own.

    Statements that do not read each other keep their order.
    """
    setup, relations = list[str](), list[_Relation]()
    described = [(text, _describe(text)) for text in statements]
    streams = {each.parts for _text, each in described if each is not None and each.is_stream}
    over_streams = set(streams)
    changed = True
    while changed:
        # A view can read a view over a stream.
        changed = False
        for _text, each in described:
            if each is None or each.parts in over_streams:
                continue
            if any(each.mentioned.has(parts) for parts in over_streams):
                over_streams.add(each.parts)
                changed = True
    for text, each in described:
        if each is None or each.parts not in over_streams:
            setup.append(text)
        else:
            relations.append(each)
    if all(each.is_stream for each in relations):
        return OrderedRelations(setup, [each.text for each in relations])
    return OrderedRelations(setup, _sort(relations))


def _sort(relations: list[_Relation]) -> list[str]:
    """Return the texts, each after those it mentions. Spark reports a cycle."""
    ordered: dict[int, str] = {}
    begun = set[int]()
    for first in range(len(relations)):
        # A chain can be longer than Python's stack.
        stack = [(first, False)]
        while stack:
            index, is_done = stack.pop()
            if is_done:
                ordered[index] = relations[index].text
            elif index not in begun:
                begun.add(index)
                stack.append((index, True))
                mentioned = relations[index].mentioned
                stack += [
                    (other, False)
                    for other, relation in reversed(list(enumerate(relations)))
                    if other not in begun and mentioned.has(relation.parts)
                ]
    return list(ordered.values())


def _describe(text: str) -> _Relation | None:
    """Return the stream or the temporary view that a statement creates, or None."""
    command = parse(text).command
    mentioned = MentionedNames()
    if isinstance(command, CreateStream | CreateStreamAs):
        if isinstance(command, CreateStreamAs):
            mentioned.add_sql(command.query)
        return _Relation(text, fold_name((*command.qualifier, command.name)), mentioned, True)
    found = None if command is not None else _find_view(text)
    if found is None:
        return None
    name, query = found
    mentioned.add_sql(query)
    return _Relation(text, fold_name([name]), mentioned, False)


def _find_view(text: str) -> tuple[str, str] | None:
    """Return the name of the temporary view that a statement creates, and the text after it."""
    tokens = list(code_tokens(text))
    if not tokens or tokens[0].word != "CREATE":
        return None
    at = 1
    while at < len(tokens) and tokens[at].word in _MODIFIERS:
        at += 1
    is_temporary = any(token.word in _TEMPORARY for token in tokens[1:at])
    if not is_temporary or at + 1 >= len(tokens) or tokens[at].word != "VIEW":
        return None
    name = tokens[at + 1]
    return unquote_name(text[name.start : name.end]), text[name.end :]
