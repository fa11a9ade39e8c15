"""CSV, TSV and Markdown: one row a line, under the column names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TextIO

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.text import NULL, plain

_QUOTED = re.compile(r'[",\r\n]')
_ESCAPED = re.compile(r"[\\\t\r\n]")
_TSV = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_MARKDOWN = re.compile(r"([\\|])")


class CsvWriter:
    """RFC 4180 with `\\n` at line ends. NULL is nothing, an empty string is `""`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._out.write(",".join(_csv(column.name) for column in columns) + "\n")

    def rows(self, rows: Sequence[Row]) -> None:
        columns = map(_csv_column, zip(*rows, strict=True))
        self._out.writelines(",".join(line) + "\n" for line in zip(*columns, strict=True))

    def end(self) -> None:
        pass


def _csv(value: Any) -> str:
    if value is None:
        return ""
    text = plain(value)
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def _csv_column(values: Sequence[Any]) -> list[str]:
    """A column at once: few hold anything that needs a closer look."""
    texts = ["" if value is None else plain(value) for value in values]
    if "" in values or _QUOTED.search("".join(texts)):
        return list(map(_csv, values))
    return texts


class TsvWriter:
    """Tabs between values, `\\t \\n \\r \\\\` for those characters, `\\N` for NULL."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._out.write("\t".join(_tsv(column.name) for column in columns) + "\n")

    def rows(self, rows: Sequence[Row]) -> None:
        columns = map(_tsv_column, zip(*rows, strict=True))
        self._out.writelines("\t".join(line) + "\n" for line in zip(*columns, strict=True))

    def end(self) -> None:
        pass


def _tsv(value: Any) -> str:
    return "\\N" if value is None else plain(value).translate(_TSV)


def _tsv_column(values: Sequence[Any]) -> list[str]:
    texts = ["" if value is None else plain(value) for value in values]
    if None in values or _ESCAPED.search("".join(texts)):
        return list(map(_tsv, values))
    return texts


class MarkdownWriter:
    """A pipe table. An empty string is an empty cell, NULL says so."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._line([_markdown(column.name) for column in columns])
        self._line(["---"] * len(columns))

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._line([_markdown(value) for value in row])

    def end(self) -> None:
        pass

    def _line(self, cells: list[str]) -> None:
        self._out.write("| " + " | ".join(cells) + " |\n")


def _markdown(value: Any) -> str:
    if value is None:
        return NULL
    text = _MARKDOWN.sub(r"\\\1", plain(value))
    return "<br>".join(text.splitlines()) if text else ""
