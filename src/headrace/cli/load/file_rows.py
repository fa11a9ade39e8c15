"""Rows of local files, whatever their format.

The values have the form of the API's JSON: numbers with their digits, base64 for binary values,
lists of pairs for maps. Delimited files hold all values as text.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.errors import InvalidRequest
from headrace.grammar.data_types import DataType

Row = dict[str, Any]
"""Values of a row by the column names in the file."""
Numbered = tuple[int, Row]
"""A row and its line, from 1. In Parquet and Arrow, lines are rows."""
_RENAME = "rename or remove one of them"


@dataclass(slots=True)
class Misfits:
    """Rows that cannot be loaded. The first ones are kept."""

    limit: int = 5
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        """Count a row, for example `sales.csv:3` with `column amount: 'x' is not int`."""
        self.count += 1
        if len(self.first) < self.limit:
            self.first.append(f"{place}: {reason}")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How rows are read from files with one of the known ends of names."""

    read: Callable[[FileSource, Misfits], Iterator[Numbered]]
    is_text: bool = False
    """Whether every value is a text, in which nested values and variants are JSON."""
    types: Callable[[FileSource], dict[str, DataType]] | None = None
    """Returns the types that the file declares for its columns."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file whose rows are to be loaded."""

    path: Path

    def place(self, line: int) -> str:
        """Return the place of a row for messages."""
        return f"{self.path}:{line}"

    @property
    def suffix(self) -> str:
        """The end of the name that selects the format, without that of a compressed file."""
        path = self.path.with_suffix("") if self._is_compressed else self.path
        return path.suffix.lower()

    @property
    def _is_compressed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def open(self) -> BinaryIO:
        """Open the content, decompressed. Raises OSError."""
        if self._is_compressed:
            return cast("BinaryIO", gzip.open(self.path, "rb"))
        return self.path.open("rb")


def column_key(name: str) -> str:
    """Return what the names of a column in a file and in its table have in common."""
    return name.strip().lower()


def find_duplicate(names: Iterable[str]) -> str | None:
    """Return what is wrong if two names of a row stand for the same column."""
    earlier: dict[str, str] = {}
    for name in names:
        key = column_key(name)
        if key in earlier:
            other = earlier[key]
            also = "" if other == name else f" (as {other!r} and {name!r})"
            return f"has the column {name.strip()!r} more than once{also}"
        earlier[key] = name
    return None


def refuse_duplicates(source: FileSource, line: int, names: Iterable[str]) -> None:
    """Raise InvalidRequest if two names of a row stand for the same column."""
    if duplicate := find_duplicate(names):
        raise InvalidRequest(f"{source.place(line)} {duplicate}.", hint=_RENAME)
