"""Completion at the prompt: keywords, names of the catalog, commands and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from headrace.cli.output.text import to_printable
from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.cli.shell.command_list import COMMANDS
from headrace.cli.shell.completion_context import (
    KEYWORDS,
    TYPES,
    CompletionContext,
    NamePlace,
    find_context,
    find_tables,
)
from headrace.grammar.catalog_queries import CatalogName, Lookup, NameKind
from headrace.grammar.quoting import quote_name

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTION_PREFIX = 2
"""Typed characters after which the several hundred functions are offered too."""
_CHOICES = {"x": ("on", "off", "auto"), "timing": ("on", "off"), "pager": ("on", "off")}
_STARTS = tuple(
    """
    ALTER ANALYZE BEGIN CACHE CANCEL CREATE DECLARE DELETE DESCRIBE DROP EXECUTE EXPLAIN INSERT
    MERGE PAUSE REFRESH RESET RESTART RESUME SAVE SELECT SET SHOW STOP TRUNCATE UNCACHE UPDATE USE
    VALUES WITH
    """.split()  # noqa: SIM905 - one quoted word per line would be thirty lines
)
_ALL_KEYWORDS = sorted(KEYWORDS | TYPES)
_MAX_NAMES = 500


class ShellCompleter(Completer):
    """Completer of prompt_toolkit. It reads the cache only, and so never waits."""

    def __init__(self, cache: CatalogCache) -> None:
        self._cache = cache
        self._files = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        if document.text.lstrip().startswith("\\"):
            yield from self._complete_command(document, complete_event)
            return
        context = find_context(document.text_before_cursor)
        if context.place is NamePlace.NOTHING:
            return
        is_empty = not context.prefix and not context.qualifier
        if is_empty and not complete_event.completion_requested:
            return
        names = self._sql_names(document, context)
        yield from _matching(names, context.prefix)

    def _sql_names(self, document: Document, context: CompletionContext) -> Iterator[CatalogName]:
        """Yield what can stand at the cursor, the likeliest first."""
        if context.qualifier:
            yield from self._members(document, context)
        elif context.place is NamePlace.START:
            yield from _keywords(_STARTS, context.prefix)
        elif context.place is NamePlace.EXPRESSION:
            yield from self._expression_names(document, context)
        else:
            yield from self._relation_names(context)

    def _expression_names(
        self, document: Document, context: CompletionContext
    ) -> Iterator[CatalogName]:
        tables = _tables(document)
        for table in tables.values():
            yield from self._names(NameKind.COLUMNS, table)
        yield from (CatalogName(alias, "table") for alias in tables)
        yield from _keywords(_ALL_KEYWORDS, context.prefix)
        if len(context.prefix) >= _FUNCTION_PREFIX:
            yield from self._names(NameKind.FUNCTIONS)

    def _relation_names(self, context: CompletionContext) -> Iterator[CatalogName]:
        if context.place is NamePlace.TABLE:
            yield from self._names(NameKind.TABLES)
        yield from self._names(NameKind.DATABASES)
        yield from self._names(NameKind.CATALOGS)
        if context.prefix:
            yield from _keywords(_ALL_KEYWORDS, context.prefix)

    def _members(self, document: Document, context: CompletionContext) -> Iterator[CatalogName]:
        """Yield what a qualified name can continue with: columns, tables or databases."""
        qualifier = context.qualifier
        if context.place is NamePlace.EXPRESSION:
            table = _tables(document).get(qualifier[-1].lower())
            if table is not None:
                yield from self._names(NameKind.COLUMNS, table)
            return
        if context.place is NamePlace.TABLE:
            yield from self._names(NameKind.TABLES, qualifier)
        catalogs = {name.text for name in self._names(NameKind.CATALOGS)}
        if len(qualifier) == 1 and qualifier[0] in catalogs:
            yield from self._names(NameKind.DATABASES, qualifier)

    def _names(self, kind: NameKind, parent: tuple[str, ...] = ()) -> list[CatalogName]:
        return self._cache.names(Lookup(kind, parent))

    def _complete_command(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor.lstrip()
        name, space, arguments = before[1:].partition(" ")
        if not space:
            listed = dict.fromkeys(command.name for command in COMMANDS)
            summaries = {command.name: command.summary for command in reversed(COMMANDS)}
            names = [CatalogName(listed_name, summaries[listed_name]) for listed_name in listed]
            yield from _matching(names, name, quoted=False)
        elif name in {"i", "o", "g", "gx", "e"} or (name == "copy" and _is_at_file(arguments)):
            yield from self._complete_file(arguments, event, quoted=name == "copy")
        elif name in _CHOICES:
            yield from _matching([CatalogName(word) for word in _CHOICES[name]], arguments)
        elif name in {"d", "d+", "sv", "dt", "dv", "copy"}:
            context = find_context(f"TABLE {arguments}")
            without_keywords = replace(context, prefix="")
            yield from _matching(self._sql_names(document, without_keywords), context.prefix)

    def _complete_file(
        self, arguments: str, event: CompleteEvent, *, quoted: bool
    ) -> Iterator[Completion]:
        path = (
            re.split(r"\s(?:to|from)\s+", arguments, flags=re.IGNORECASE)[-1]
            if quoted
            else arguments
        )
        path = path.lstrip().lstrip("'\"")
        yield from self._files.get_completions(Document(path), event)


def _is_at_file(arguments: str) -> bool:
    return re.search(r"\s(?:to|from)\s", arguments, re.IGNORECASE) is not None


def _tables(document: Document) -> dict[str, tuple[str, ...]]:
    return find_tables(document.text_before_cursor, document.text_after_cursor)


def _keywords(words: Iterable[str], prefix: str) -> Iterator[CatalogName]:
    """Yield keywords in the case in which the user types."""
    for word in words:
        yield CatalogName(word.lower() if prefix.islower() else word, "")


def _matching(
    names: Iterable[CatalogName], prefix: str, *, quoted: bool = True
) -> Iterator[Completion]:
    """Yield the names that begin with the prefix, each once."""
    seen: set[str] = set()
    for name in names:
        if name.text in seen or not name.text.lower().startswith(prefix.lower()):
            continue
        seen.add(name.text)
        if len(seen) > _MAX_NAMES:
            return
        plain = not quoted or _PLAIN_NAME.fullmatch(name.text)
        yield Completion(
            name.text if plain else quote_name(name.text),
            start_position=-len(prefix),
            display=to_printable(name.text),
            display_meta=to_printable(name.detail),
        )
