"""JSON: an array of objects, or one object a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from headrace.cli.output.contract import Column, Row
from headrace.cli.output.text import as_json
from headrace.errors import FormatCannotHold


def _names(columns: Sequence[Column]) -> list[str]:
    """The names as JSON. Raises FormatCannotHold when an object cannot hold them all."""
    names = [column.name for column in columns]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise FormatCannotHold(
            f"JSON objects cannot hold several columns of one name: {', '.join(repeated)}.",
            hint="name them apart with AS, or take another format: csv, table, arrow",
        )
    return [as_json(name) for name in names]


class JsonWriter:
    """One array, a row a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._names: list[str] = []
        self._open = "["

    def begin(self, columns: Sequence[Column], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._names = _names(columns)

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._out.write(self._open + _object(self._names, row))
            self._open = ",\n "

    def end(self) -> None:
        self._out.write("[]\n" if self._open == "[" else "]\n")


class JsonLinesWriter:
    """One object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._names: list[str] = []

    def begin(self, columns: Sequence[Column], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._names = _names(columns)

    def rows(self, rows: Sequence[Row]) -> None:
        self._out.writelines(_object(self._names, row) + "\n" for row in rows)

    def end(self) -> None:
        pass


def _object(names: list[str], row: Row) -> str:
    members = zip(names, map(as_json, row), strict=True)
    return "{" + ", ".join([f"{name}: {value}" for name, value in members]) + "}"
