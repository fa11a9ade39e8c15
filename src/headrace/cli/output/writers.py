"""The interface of the output formats, and the formats that write row by row.

These are CSV, TSV, Markdown and JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from headrace.cli.output.text import NULL, to_json, to_text
from headrace.errors import FormatCannotHold

Row = Sequence[Any]
"""Values of a row, as they appear in the JSON of the API."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a result. Several columns may have the same name."""

    name: str
    type: str
    """Spark SQL type, for example `decimal(10,2)`."""


class Writer(Protocol):
    """Writer of one result. Call `begin` once, `write_rows` any number of times, then `end`."""

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        """Write what precedes the rows.

        Args:
            sample: The first rows, from which a format may choose its layout. They are passed to
                `write_rows` again.

        Raises:
            FormatCannotHold: The format cannot represent the columns that the message names.
                Nothing has been written.
        """

    def write_rows(self, rows: Sequence[Row]) -> None: ...

    def end(self) -> None: ...


_CSV_SPECIAL = re.compile(r'[",\r\n]')
_TSV_SPECIAL = re.compile(r"[\\\t\r\n]")
_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_MARKDOWN_SPECIAL = re.compile(r"([\\|])")


class CsvWriter:
    """CSV as in RFC 4180, with LF as line end. NULL is nothing, an empty string is `""`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._out.write(",".join(_csv_cell(column.name) for column in columns) + "\n")

    def write_rows(self, rows: Sequence[Row]) -> None:
        columns = map(_csv_column, zip(*rows, strict=True))
        self._out.writelines(",".join(line) + "\n" for line in zip(*columns, strict=True))

    def end(self) -> None:
        pass


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = to_text(value)
    return '"' + text.replace('"', '""') + '"' if not text or _CSV_SPECIAL.search(text) else text


def _csv_column(values: Sequence[Any]) -> list[str]:
    """Convert a whole column at once: only few columns need their values checked one by one."""
    texts = ["" if value is None else to_text(value) for value in values]
    if "" in values or _CSV_SPECIAL.search("".join(texts)):
        return list(map(_csv_cell, values))
    return texts


class TsvWriter:
    r"""Tab-separated values. `\t \n \r \\` stand for those characters, `\N` for NULL."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._out.write("\t".join(_tsv_cell(column.name) for column in columns) + "\n")

    def write_rows(self, rows: Sequence[Row]) -> None:
        columns = map(_tsv_column, zip(*rows, strict=True))
        self._out.writelines("\t".join(line) + "\n" for line in zip(*columns, strict=True))

    def end(self) -> None:
        pass


def _tsv_cell(value: Any) -> str:
    return "\\N" if value is None else to_text(value).translate(_TSV_ESCAPES)


def _tsv_column(values: Sequence[Any]) -> list[str]:
    texts = ["" if value is None else to_text(value) for value in values]
    if None in values or _TSV_SPECIAL.search("".join(texts)):
        return list(map(_tsv_cell, values))
    return texts


class MarkdownWriter:
    """A Markdown table. An empty string is an empty cell, NULL is the word `NULL`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._write_line([_markdown_cell(column.name) for column in columns])
        self._write_line(["---"] * len(columns))

    def write_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._write_line([_markdown_cell(value) for value in row])

    def end(self) -> None:
        pass

    def _write_line(self, cells: list[str]) -> None:
        self._out.write("| " + " | ".join(cells) + " |\n")


def _markdown_cell(value: Any) -> str:
    if value is None:
        return NULL
    text = _MARKDOWN_SPECIAL.sub(r"\\\1", to_text(value))
    return "<br>".join(text.splitlines()) if text else ""


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
