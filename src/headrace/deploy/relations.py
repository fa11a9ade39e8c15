"""The order in which the streams and temporary views of a job are created.

A driver first runs the statements of Spark's own, then opens the streams. A temporary view over a
stream must follow the streams that it reads, and a stream can read such a view.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from headrace.grammar.lexer import TokenKind, code_tokens
from headrace.grammar.parse import parse
from headrace.grammar.quoting import unquote_name
from headrace.grammar.stream_statements import CreateStream, CreateStreamAs

_MAX_PARTS = 3
_PART = r"(?:`(?:[^`\n]|``)+`|[^\W`]+)"
_CHAIN = re.compile(rf"{_PART}(?:\s*\.\s*{_PART})*")
_PLAIN_CHAIN = re.compile(r"\w+(?:\s*\.\s*\w+)*")
_ONE_PART = re.compile(_PART)


class MentionedNames:
    """Every name, of one to three parts, that occurs in some texts. Any case is equal.

    Columns, functions and words of strings count too: it is enough that no name of a table is
    missed.
    """

    def __init__(self) -> None:
        self._names: set[tuple[str, ...]] = set()

    def add_sql(self, text: str) -> None:
        """Add the names of a SQL text, and those inside its strings. Comments do not count."""
        code: list[str] = []
        for token in code_tokens(text):
            part = text[token.start : token.end]
            is_string = token.kind is TokenKind.QUOTED and part[0] != "`"
            if is_string:
                self._add_chains(part)
            code.append("'" if is_string else part)
        self._add_chains(" ".join(code))

    def add_python(self, text: str) -> None:
        """Add the names of Python code: identifiers, and the names inside its strings."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._add_chains(text)
            return
        for word in _list_python_words(tree):
            self._add_chains(word)

    def add_name(self, parts: Iterable[str]) -> None:
        """Add one name, and its parts."""
        self._add_parts(list(parts))

    def has(self, parts: tuple[str, ...]) -> bool:
        """Return whether a name, given in case-folded parts, occurs, also within a longer one."""
        return parts in self._names

    def _add_chains(self, text: str) -> None:
        # Where a text has a stray backtick, plain names are still found by the second pattern.
        for pattern in (_CHAIN, _PLAIN_CHAIN):
            for match in pattern.finditer(text):
                self._add_parts([unquote_name(part) for part in _ONE_PART.findall(match[0])])

    def _add_parts(self, parts: list[str]) -> None:
        folded = fold_name(parts)
        for first in range(len(folded)):
            for end in range(first + 1, min(first + _MAX_PARTS, len(folded)) + 1):
                self._names.add(folded[first:end])


def _list_python_words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def fold_name(parts: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of a name in the form in which names are compared."""
    return tuple(part.casefold() for part in parts)


_TEMPORARY = frozenset({"TEMPORARY", "TEMP"})
_CATALOG_VERBS = frozenset({"CREATE", "ALTER", "DROP", "COMMENT"})
_MODIFIERS = frozenset({"OR", "REPLACE", "GLOBAL", "LOCAL"}) | _TEMPORARY


@dataclass(frozen=True, slots=True)
class SplitDefinitions:
    """Definitions by when a batch job runs them. Some run at both times."""

    deployed: list[str]
    """What the deployment runs: tables and permanent views, and what their names depend on."""
    per_run: list[str]
    """What each run begins with: temporary views, and the configuration of its Spark session."""

    @property
    def kept(self) -> list[str]:
        """What a catalog keeps: tables and permanent views, and changes of them."""
        return [text for text in self.deployed if text not in self.per_run]


def split_definitions(statements: Sequence[str]) -> SplitDefinitions:
    """Split definitions by when a batch job runs them."""
    deployed, per_run = list[str](), list[str]()
    for text in statements:
        verb, *others = [token.word for token in code_tokens(text)] or [""]
        modifiers = takewhile(lambda word: word in _MODIFIERS, others)
        if not _TEMPORARY.isdisjoint(modifiers):
            # It may name a secret, which only runs may read.
            per_run.append(text)
            continue
        deployed.append(text)
        if verb not in _CATALOG_VERBS:
            per_run.append(text)
    return SplitDefinitions(deployed, per_run)


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
