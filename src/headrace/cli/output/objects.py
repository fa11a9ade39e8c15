"""JSON: an array of objects, or one object a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.text import as_json
from headrace.errors import FormatCannotHold


def _template(columns: Sequence[OutputColumn]) -> str:
    """An object with a `%s` for each value. Raises FormatCannotHold when names repeat."""
    names = [column.name for column in columns]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise FormatCannotHold(
            f"JSON objects cannot hold several columns of one name: {', '.join(repeated)}.",
            hint="name them apart with AS, or take another format: csv, table, arrow",
        )
    members = [as_json(name).replace("%", "%%") + ": %s" for name in names]
    return "{" + ", ".join(members) + "}"


class JsonWriter:
    """One array, a row a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._template = ""
        self._open = "["

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._template = _template(columns)

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._out.write(self._open + _object(self._template, row))
            self._open = ",\n "

    def end(self) -> None:
        self._out.write("[]\n" if self._open == "[" else "]\n")


class JsonLinesWriter:
    """One object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._template = ""

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._template = _template(columns)

    def rows(self, rows: Sequence[Row]) -> None:
        self._out.writelines(_object(self._template, row) + "\n" for row in rows)

    def end(self) -> None:
        pass


def _object(template: str, row: Row) -> str:
    return template % tuple(map(as_json, row))
