"""What a query needs of the definitions of its owner: all of them by text, in order.

Definitions are read by name. An owner may have thousands that a statement does not mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.errors import InvalidStatement
from headrace.grammar.lexer import code_tokens
from headrace.grammar.parse import parse
from headrace.grammar.quoting import unquote_name
from headrace.grammar.stream_statements import CreateSink, CreateStream, CreateStreamAs
from headrace.model.stream_query import DefinitionKind
from headrace.store.database import Tx
from headrace.store.streams import definitions

_MAX_STREAMS = 1000
"""Largest number of streams that one statement reads, directly or by other streams."""
_MAX_DEPTH = 100
"""Longest chain of streams that read each other, which is also Spark's limit for views."""
_MAX_TEXT = 4 * 1024 * 1024
"""Largest number of characters of their definitions together."""


class DefinedNames:
    """The definitions of one owner in one scope. Names are equal in any case."""

    def __init__(self, tx: Tx, owner: str, scope: str) -> None:
        self._tx = tx
        self._owner = owner
        self._scope = scope
        self._streams: dict[str, _LoadedStream | None] = {}
        """The streams that were looked up, by name in lower case; None: there is no such stream."""

    def find_sink(self, name: str) -> CreateSink | None:
        """Return the defined sink with this name, or None."""
        found = definitions.find(self._tx, self._owner, self._scope, DefinitionKind.SINK, [name])
        command = parse(found[0].text).command if found else None
        return command if isinstance(command, CreateSink) else None

    def find_stream(self, name: str) -> CreateStream | CreateStreamAs | None:
        """Return the defined stream with this name, or None."""
        self._load([name.casefold()])
        stream = self._streams[name.casefold()]
        return None if stream is None else stream.command

    def list_needed(self, names: Iterable[str]) -> list[str]:
        """Return the statements that define these streams, each after those it reads.

        A name without a stream counts as the name of something else. Raise InvalidStatement if
        there are too many streams.
        """
        first = [name.casefold() for name in names]
        self._load_all(first)
        needed: dict[str, str] = {}
        # A chain of streams can be longer than Python's stack.
        begun, stack = set[str](), [iter(first)]
        path = list[str]()
        while stack:
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                if path:
                    done = path.pop()
                    stream = self._streams[done]
                    assert stream is not None
                    needed[done] = stream.text
                continue
            stream = self._streams.get(name)
            # A word of a query need not be the name of a relation: Spark reports a stream that
            # reads itself as a table that does not exist.
            if stream is None or name in begun:
                continue
            begun.add(name)
            path.append(name)
            stack.append(iter(stream.mentioned))
        return list(needed.values())

    def list_needed_by_query(self, query: str, *, defining: str) -> list[str]:
        """Return the statements that define the streams that a query reads, in the same order.

        Args:
            defining: Name of the stream that the query is to define.
        """
        own = defining.casefold()
        return self.list_needed(word for word in _names_in(query) if word != own)

    def _load_all(self, names: list[str]) -> None:
        """Look up names, and the names that the found streams mention. Raise InvalidStatement."""
        visited = set[str]()
        count = size = depth = 0
        remaining = list(dict.fromkeys(names))
        while remaining:
            visited.update(remaining)
            self._load(remaining)
            found = [stream for name in remaining if (stream := self._streams[name]) is not None]
            depth += bool(found)
            count += len(found)
            size += sum(len(stream.text) for stream in found)
            if count > _MAX_STREAMS or depth > _MAX_DEPTH or size > _MAX_TEXT:
                raise InvalidStatement(
                    "The statement reads too many streams, directly or by other streams. Allowed:"
                    f" {_MAX_STREAMS:,} streams, {_MAX_DEPTH} that read one another, and"
                    f" {_MAX_TEXT:,} characters together.",
                    hint="Write the rows of some of them to a table, and read the table.",
                )
            mentioned = (word for stream in found for word in stream.mentioned)
            remaining = list(dict.fromkeys(word for word in mentioned if word not in visited))

    def _load(self, names: list[str]) -> None:
        unknown = [name for name in names if name not in self._streams]
        if not unknown:
            return
        found = definitions.find(self._tx, self._owner, self._scope, DefinitionKind.STREAM, unknown)
        self._streams |= dict.fromkeys(unknown)
        self._streams |= {each.name.casefold(): _LoadedStream(each.text) for each in found}


class _LoadedStream:
    """A defined stream, and the words of its query."""

    def __init__(self, text: str) -> None:
        self.text = text
        command = parse(text).command
        assert isinstance(command, CreateStream | CreateStreamAs)
        self.command = command
        self.mentioned = (
            list(_names_in(command.query)) if isinstance(command, CreateStreamAs) else []
        )


def _names_in(query: str) -> Iterator[str]:
    """Return every word of a query that could be the name of a stream, once, in lower case."""
    words = (query[token.start : token.end] for token in code_tokens(query))
    return iter(dict.fromkeys(unquote_name(word).casefold() for word in words))
