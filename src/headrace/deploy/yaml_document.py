"""Reading of YAML 1.2 texts: mappings of plain values, each with its place.

The events of ruamel.yaml are enough: no object is built, scalars keep the text that the file has,
and the limits apply before anything is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from headrace.deploy.problems import Findings, Place
from headrace.deploy.yaml_values import (
    ScalarKind,
    ScalarSource,
    YamlEntry,
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
    find_scalar_kind,
    is_null,
)
from headrace.errors import HeadraceError, Position
from headrace.grammar.text import MAX_OWN, check_text, position_at

_MAX_DEPTH = 20
_MAX_VALUES = 20_000
"""Values in a document, with every alias expanded."""
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_CORE_TAG = "tag:yaml.org,2002:"
_CORE_TAGS = {
    f"{_CORE_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
}
_TEXT_TAGS = {f"{_CORE_TAG}str", "!"}
_HINTS = {
    "that cannot start any token": "Put a value that begins with this character in quotes, and"
    " indent with spaces.",
    "mapping values are not allowed": "Put a value that contains `: ` in quotes, or write it as a"
    " block after `|`.",
}
"""What to do, by a part of the message of ruamel.yaml."""


class _Refusal(Exception):
    """A document is not accepted. The problem is in the findings."""


def read_documents(path: str, text: str, findings: Findings) -> list[YamlMapping]:
    """Return the mappings that a text consists of, one for each document that is not empty.

    Everything after the first syntax error is ignored, and everything after a limit of the
    findings. Problems: `invalid_yaml`, `duplicate_key`, `file_too_large`.

    Args:
        path: Name of the file, for the places.
        findings: Receives the problems.
    """
    text = text.removeprefix("\ufeff")
    if len(text.encode(errors="replace")) > MAX_OWN:
        findings.add_problem(
            _to_place(path, None), "file_too_large", "The file is larger than 1 MiB."
        )
        return []
    documents: list[YamlMapping] = []
    try:
        check_text(text)
        for document in _Reader(path, text, findings).read():
            if isinstance(document, YamlMapping):
                documents.append(document)
            elif not is_null(document):
                message = "The document is not a mapping of keys to values."
                findings.add_problem(document.place, "invalid_yaml", message)
    except _Refusal:
        pass
    except HeadraceError as error:
        findings.add_problem(_to_place(path, error.position), "invalid_yaml", error.message)
    except (YAMLError, ValueError, OverflowError) as error:
        # An escape such as "\UFFFFFFFF" makes ruamel.yaml raise OverflowError.
        _report_syntax_error(path, text, error, findings)
    return documents


def _to_place(path: str, position: Position | None) -> Place:
    return Place(path, 1, 1) if position is None else Place(path, position.line, position.column)


def _report_syntax_error(path: str, text: str, error: Exception, findings: Findings) -> None:
    place, problem, hint = Place(path, 1, 1), str(error), None
    if isinstance(error, ReaderError):
        place = _to_place(path, position_at(text, error.position))
        problem = f"the character U+{ord(text[error.position]):04X} is not allowed"
    elif isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            place = Place(path, mark.line + 1, mark.column + 1)
        problem = " ".join(str(error.problem or error.context).split())
        hint = next((hint for part, hint in _HINTS.items() if part in problem), None)
    findings.add_problem(place, "invalid_yaml", f"The file is not valid YAML: {problem}.", hint)


class _Reader:
    """Reads the documents of one text."""

    def __init__(self, path: str, text: str, findings: Findings) -> None:
        self._path = path
        self._lines = _LINE_BREAK.split(text)
        # YAML 1.2 in Python: the parser in C reads YAML 1.1.
        self._events: Iterator[Event] = iter(YAML(typ="safe", pure=True).parse(text))
        self._findings = findings
        self._anchors: dict[str, tuple[YamlValue, int]] = {}
        self._values = 0

    def read(self) -> Iterator[YamlValue]:
        """Yield the value of each document."""
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._anchors, self._values = {}, 0
                self._findings.documents += 1
                if self._findings.is_full():
                    return
                yield self._read_value(next(self._events), depth=0)

    def _read_value(self, event: Any, *, depth: int) -> YamlValue:
        place = self._place(event)
        if isinstance(event, AliasEvent):
            return self._expand(event, place)
        self._count(1, place)
        if depth > _MAX_DEPTH:
            raise self._refuse(place, f"The document has more than {_MAX_DEPTH} levels.")
        self._check_tag(event, place)
        before = self._values
        value: YamlValue
        if isinstance(event, MappingStartEvent):
            value = self._read_mapping(place, depth)
        elif isinstance(event, SequenceStartEvent):
            value = self._read_list(place, depth)
        else:
            value = self._read_scalar(event, place)
        anchor: str | None = event.anchor
        if anchor is not None:
            self._anchors[anchor] = value, self._values - before + 1
        return value

    def _read_scalar(self, event: Any, place: Place) -> YamlScalar:
        is_plain = event.style is None and event.tag not in _TEXT_TAGS
        kind = find_scalar_kind(event.value) if is_plain else ScalarKind.TEXT
        source = ScalarSource(
            lines=self._lines,
            start=(event.start_mark.line, event.start_mark.column),
            end=(event.end_mark.line, event.end_mark.column),
            style=event.style,
        )
        try:
            check_text(event.value)
        except HeadraceError as error:
            raise self._refuse(place, error.message) from error
        return YamlScalar(event.value, kind, place, event.value, source)

    def _read_list(self, place: Place, depth: int) -> YamlList:
        items = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._read_value(event, depth=depth + 1))
        return YamlList(tuple(items), place)

    def _read_mapping(self, place: Place, depth: int) -> YamlMapping:
        entries: dict[str, YamlEntry] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key_place = self._place(event)
            key = self._read_key(event, depth + 1)
            value = self._read_value(next(self._events), depth=depth + 1)
            if key in entries:
                self._findings.add_problem(
                    key_place,
                    "duplicate_key",
                    f"The key {key} is given twice; first in line {entries[key].key_place.line}.",
                    "Delete one of them.",
                )
            else:
                entries[key] = YamlEntry(key_place, value)
        return YamlMapping(entries, place)

    def _read_key(self, event: Event, depth: int) -> str:
        key = self._read_value(event, depth=depth)
        place = self._place(event)
        if not isinstance(key, YamlScalar) or is_null(key):
            raise self._refuse(place, "A key must be a text.")
        if key.text == "<<" and getattr(event, "style", None) is None:
            raise self._refuse(
                place,
                "Merge keys (<<) are not part of YAML 1.2.",
                "Put common keys into the template file.",
            )
        return key.text

    def _expand(self, event: AliasEvent, place: Place) -> YamlValue:
        if event.anchor not in self._anchors:
            raise self._refuse(place, f"The anchor {event.anchor} is not defined before.")
        value, size = self._anchors[event.anchor]
        self._count(size, place)
        return value

    def _count(self, values: int, place: Place) -> None:
        self._values += values
        if self._values > _MAX_VALUES:
            message = f"The document has more than {_MAX_VALUES:,} values, with aliases expanded."
            raise self._refuse(place, message)

    def _check_tag(self, event: Any, place: Place) -> None:
        tag = event.tag
        if tag is not None and tag not in _CORE_TAGS | _TEXT_TAGS:
            name = str(tag).replace(_CORE_TAG, "!!")
            raise self._refuse(place, f"The tag {name} is not allowed.", "Delete the tag.")

    def _place(self, event: Event) -> Place:
        mark = event.start_mark
        return Place(self._path, mark.line + 1, mark.column + 1)

    def _refuse(self, place: Place, message: str, hint: str | None = None) -> _Refusal:
        self._findings.add_problem(place, "invalid_yaml", message, hint)
        return _Refusal()
