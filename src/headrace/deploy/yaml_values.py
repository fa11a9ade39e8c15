"""The values of a YAML document, with their places in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.deploy.problems import Place

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_NUMBER = re.compile(
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class ScalarKind(Enum):
    """What a scalar is in YAML 1.2 (core schema)."""

    TEXT = auto()
    BOOLEAN = auto()
    NUMBER = auto()
    NULL = auto()


def find_scalar_kind(text: str) -> ScalarKind:
    """Return what a plain scalar, one without quotes, is."""
    if _NULL.fullmatch(text):
        return ScalarKind.NULL
    if _BOOLEAN.fullmatch(text):
        return ScalarKind.BOOLEAN
    return ScalarKind.NUMBER if _NUMBER.fullmatch(text) else ScalarKind.TEXT


@dataclass(frozen=True, slots=True)
class ScalarSource:
    """Where a scalar stands in its file. Lines and columns count from 0 here, as in ruamel.yaml."""

    lines: Sequence[str] = field(repr=False)
    """All lines of the file."""
    start: tuple[int, int]
    end: tuple[int, int]
    style: str | None
    """`|`, `>`, a quote, or None for a plain scalar."""

    @property
    def joins_lines(self) -> bool:
        """Whether the scalar has several lines, which YAML joins: every style but `|`."""
        return self.style != "|" and self.end[0] > self.start[0] + (self.style == ">")

    def locate(self, content: str, offset: int) -> tuple[int, int]:
        """Return line and column, from 0, of an offset in the content of the scalar.

        Each line of the file is found again in the content. Where that fails, because of escapes
        or of doubled quotes, the start of the scalar is returned.
        """
        for begin, length, line, column in self.find_parts(content):
            if begin <= offset <= begin + length:
                return line, column + offset - begin
        return self.start

    def find_parts(self, content: str) -> Iterator[tuple[int, int, int, int]]:
        """Yield offset and length of each part of the content, with its line and column, from 0."""
        at = 0
        for line, column, text in self._parts():
            begin = content.find(text, at) if text else -1
            if begin >= 0:
                yield begin, len(text), line, column
                at = begin + len(text)

    def _parts(self) -> list[tuple[int, int, str]]:
        """Return line, column and text of what each line of the file adds to the content."""
        first, begin = self.start
        last, end = self.end[0], self.end[1] or None
        if self.style in {"|", ">"}:
            first, begin, end = first + 1, 0, None
        elif self.style is not None and end is not None:
            begin, end = begin + 1, end - 1
        parts = []
        for number in range(first, min(last, len(self.lines) - 1) + 1):
            line = self.lines[number][: end if number == last else None]
            start = begin if number == first else 0
            text = line[start:]
            indent = len(text) - len(text.lstrip(" \t"))
            parts.append((number, start + indent, text[indent:].rstrip(" \t")))
        return parts


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A text, a number, a boolean or null."""

    text: str
    """The value as text, with the values of variables. A number is as YAML has it."""
    kind: ScalarKind
    place: Place
    written: str
    """The value as text, with the references to variables."""
    source: ScalarSource | None = field(default=None, compare=False)

    def locate(self, offset: int) -> Place:
        """Return the place of an offset in `written`."""
        if self.source is None:
            return self.place
        line, column = self.source.locate(self.written, offset)
        return Place(self.place.path, line + 1, column + 1)


@dataclass(frozen=True, slots=True)
class YamlList:
    """A sequence."""

    items: tuple[YamlValue, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class YamlEntry:
    """The value of a key."""

    key_place: Place
    value: YamlValue


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """A mapping whose keys are texts."""

    entries: Mapping[str, YamlEntry]
    place: Place

    def find(self, key: str) -> YamlValue | None:
        """Return the value of a key, or None."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value


YamlValue = YamlScalar | YamlList | YamlMapping


def is_null(value: YamlValue) -> bool:
    """Return whether a value is null, or absent after its key."""
    return isinstance(value, YamlScalar) and value.kind is ScalarKind.NULL
