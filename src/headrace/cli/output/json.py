"""JSON: one array of objects, or one object per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.text import to_json
from headrace.errors import FormatCannotHold


def _object_template(columns: Sequence[OutputColumn]) -> str:
    """Return a JSON object with `%s` for each value.

    Raises FormatCannotHold if several columns have the same name.
    """
    names = [column.name for column in columns]
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise FormatCannotHold(
            f"JSON objects cannot hold several columns of the same name: {', '.join(duplicates)}.",
            hint="rename the columns with AS, or choose another format: csv, table, arrow",
        )
    members = [to_json(name).replace("%", "%%") + ": %s" for name in names]
    return "{" + ", ".join(members) + "}"


class JsonWriter:
    """One array, with one row per line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._template = ""
        self._separator = "["

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._template = _object_template(columns)

    def write_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._out.write(self._separator + _format_object(self._template, row))
            self._separator = ",\n "

    def end(self) -> None:
        self._out.write("[]\n" if self._separator == "[" else "]\n")


class JsonLinesWriter:
    """One object per line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._template = ""

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._template = _object_template(columns)

    def write_rows(self, rows: Sequence[Row]) -> None:
        self._out.writelines(_format_object(self._template, row) + "\n" for row in rows)

    def end(self) -> None:
        pass


def _format_object(template: str, row: Row) -> str:
    return template % tuple(map(to_json, row))
