"""CSV, TSV and Markdown: one row a line, under the column names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TextIO

from headrace.cli.output.contract import Column, Row
from headrace.cli.output.text import NULL, plain

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$|^$')
_TSV = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_MARKDOWN = re.compile(r"([\\|])")


class CsvWriter:
    """RFC 4180 with `\\n` at line ends. NULL is nothing, an empty string is `""`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[Column], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._out.write(",".join(_csv(column.name) for column in columns) + "\n")

    def rows(self, rows: Sequence[Row]) -> None:
        self._out.writelines(",".join(map(_csv, row)) + "\n" for row in rows)

    def end(self) -> None:
        pass


def _csv(value: Any) -> str:
    if value is None:
        return ""
    text = plain(value)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


class TsvWriter:
    """Tabs between values, `\\t \\n \\r \\\\` for those characters, `\\N` for NULL."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[Column], sample: Sequence[Row]) -> None:  # noqa: ARG002
        self._out.write("\t".join(_tsv(column.name) for column in columns) + "\n")

    def rows(self, rows: Sequence[Row]) -> None:
        self._out.writelines("\t".join(map(_tsv, row)) + "\n" for row in rows)

    def end(self) -> None:
        pass


def _tsv(value: Any) -> str:
    return "\\N" if value is None else plain(value).translate(_TSV)


class MarkdownWriter:
    """A pipe table. An empty string is an empty cell, NULL says so."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, columns: Sequence[Column], sample: Sequence[Row]) -> None:  # noqa: ARG002
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
