"""What a query needs of the definitions of its owner: all of them by text, in order."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.grammar.lexer import code_tokens
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, CreateStream, CreateStreamAs
from headrace.model.definition import Definition, DefinitionKind


class DefinedNames:
    """The definitions of one owner in one scope."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self._streams: dict[str, Definition] = {}
        self._sinks: dict[str, Definition] = {}
        for definition in definitions:
            by_name = self._streams if definition.kind is DefinitionKind.STREAM else self._sinks
            by_name[definition.name.casefold()] = definition

    @property
    def sinks(self) -> dict[str, CreateSink]:
        """The defined sinks, by name in lower case."""
        commands = {name: parse(sink.text).command for name, sink in self._sinks.items()}
        return {
            name: command for name, command in commands.items() if isinstance(command, CreateSink)
        }

    def find_stream(self, name: str) -> CreateStream | CreateStreamAs | None:
        """Return the defined stream with this name, or None."""
        definition = self._streams.get(name.casefold())
        command = None if definition is None else parse(definition.text).command
        return command if isinstance(command, CreateStream | CreateStreamAs) else None

    def list_needed(self, name: str) -> list[str]:
        """Return the statements that define a stream, each after those it reads.

        Return an empty list if there is no such stream.
        """
        needed: dict[str, str] = {}
        self._add(name.casefold(), needed, [])
        return list(needed.values())

    def list_needed_by_query(self, query: str, *, defining: str) -> list[str]:
        """Return the statements that define the streams that a query reads, in the same order.

        Args:
            defining: Name of the stream that the query is to define.
        """
        needed: dict[str, str] = {}
        for word in _names_in(query):
            self._add(word, needed, [defining.casefold()])
        return list(needed.values())

    def _add(self, name: str, needed: dict[str, str], path: list[str]) -> None:
        definition = self._streams.get(name)
        # A word of a query need not be the name of a relation: Spark reports a stream that reads
        # itself as a table that does not exist.
        if definition is None or name in needed or name in path:
            return
        command = parse(definition.text).command
        if isinstance(command, CreateStreamAs):
            for word in _names_in(command.query):
                self._add(word, needed, [*path, name])
        needed[name] = definition.text


def _names_in(query: str) -> list[str]:
    """Return every word of a query that could be the name of a stream, in lower case."""
    words = (query[token.start : token.end] for token in code_tokens(query))
    return list(dict.fromkeys(word.strip("`").casefold() for word in words))
