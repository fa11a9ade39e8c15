"""Texts from arguments, files and standard input, split into single statements."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import EmptyStatement, InvalidRequest, InvalidText, Position
from headrace.grammar import script as grammar_script

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """One text and where it came from; `name` is None for an argument."""

    name: str | None
    text: str

    def line(self, number: int) -> str:
        """A line of the text, counted from 1, without its end."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """One statement of a source, and where it begins there."""

    source: Source
    text: str
    line: int
    column: int
    number: int
    """Its place among all statements of the command, from 1."""

    def position(self, within: Position) -> Position:
        """A position in the statement as one in its source."""
        if within.line == 1:
            return Position(self.line, self.column + within.column - 1)
        return Position(self.line + within.line - 1, within.column)


def read(texts: Sequence[str], files: Sequence[str]) -> list[Source]:
    """What to run: the arguments, then the files; with neither, standard input unless a terminal.

    Raises InvalidRequest and InvalidText.
    """
    sources = [Source(None, _argument(text)) for text in texts]
    sources += [_stdin() if file == STDIN else _file(file) for file in files]
    if sources:
        return sources
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidRequest(
            "There is no SQL to run.",
            hint='give it as an argument, headrace sql "SELECT 1", by -f FILE, or by a pipe',
        )
    return [_stdin()]


def split(sources: Sequence[Source]) -> list[SourceStatement]:
    """The statements of all sources in order. Raises EmptyStatement when an argument holds none."""
    pieces: list[SourceStatement] = []
    for source in sources:
        found = grammar_script.split_script(source.text)
        if not found and source.name is None:
            raise EmptyStatement
        for each in found:
            pieces.append(
                SourceStatement(source, each.text, each.line, each.column, len(pieces) + 1)
            )
    return pieces


def _argument(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(f"The SQL is no valid UTF-8 at character {error.start + 1}.") from None
    return text


def _file(name: str) -> Source:
    try:
        return Source(name, _decode(Path(name).read_bytes(), name))
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}.") from error


def _stdin() -> Source:
    return Source("stdin", _decode(sys.stdin.buffer.read(), "standard input"))


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidText(f"{name} is no valid UTF-8 in line {line}.") from None
