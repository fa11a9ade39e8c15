"""The output formats by name, and which one a command uses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TextIO

from headrace.cli.output.contract import Column, Row, Writer
from headrace.cli.output.delimited import CsvWriter, MarkdownWriter, TsvWriter
from headrace.cli.output.objects import JsonLinesWriter, JsonWriter
from headrace.cli.output.table import Lines, TableWriter, VerticalWriter, table_width
from headrace.errors import InvalidSetting


class Format(StrEnum):
    TABLE = "table"
    VERTICAL = "vertical"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    JSONL = "jsonl"
    MARKDOWN = "markdown"
    ARROW = "arrow"  # an Arrow IPC stream
    PARQUET = "parquet"
    NONE = "none"

    @property
    def binary(self) -> bool:
        return self in {Format.ARROW, Format.PARQUET}

    @property
    def objects(self) -> bool:
        """Whether rows become JSON objects."""
        return self in {Format.JSON, Format.JSONL}


def pinned(name: str, source: str) -> Format:
    """The format that a setting names. Raises InvalidSetting with what is allowed."""
    try:
        return Format(name)
    except ValueError:
        raise InvalidSetting(
            f"There is no format {name!r} (set by {source}); there are: {', '.join(Format)}."
        ) from None


def refuse_terminal(format: Format, out: TextIO) -> None:  # noqa: A002
    """Bytes on a terminal help nobody."""
    if format.binary and out.isatty():
        raise InvalidSetting(
            f"The format {format} is binary and is not written to a terminal.",
            hint=f"redirect it: … --format {format} > result.{format}",
        )


def writer(
    pinned_format: Format | None,
    out: TextIO,
    columns: Sequence[Column],
    sample: Sequence[Row],
    *,
    colour: bool,
) -> Writer:
    """The writer for one result.

    Without a pinned format: on a terminal a table, or vertical where that would be too wide;
    elsewhere CSV. Not for the binary formats and `none`, which are not made of rows.
    """
    chosen = pinned_format or _fitting(out, columns, sample)
    if chosen is Format.TABLE:
        return TableWriter(out, Lines(out.encoding, colour=colour))
    if chosen is Format.VERTICAL:
        return VerticalWriter(out, Lines(out.encoding, colour=colour))
    return _PLAIN[chosen](out)


_PLAIN: dict[Format, Callable[[TextIO], Writer]] = {
    Format.CSV: CsvWriter,
    Format.TSV: TsvWriter,
    Format.JSON: JsonWriter,
    Format.JSONL: JsonLinesWriter,
    Format.MARKDOWN: MarkdownWriter,
}


def _fitting(out: TextIO, columns: Sequence[Column], sample: Sequence[Row]) -> Format:
    if not out.isatty():
        return Format.CSV
    fits = table_width(columns, sample) <= shutil.get_terminal_size().columns
    return Format.TABLE if fits else Format.VERTICAL
