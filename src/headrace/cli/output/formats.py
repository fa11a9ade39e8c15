"""The output formats by name, and which one a command uses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row, Writer
from headrace.cli.output.delimited import CsvWriter, MarkdownWriter, TsvWriter
from headrace.cli.output.objects import JsonLinesWriter, JsonWriter
from headrace.cli.output.table import Lines, TableWriter, VerticalWriter, table_width
from headrace.errors import InvalidSetting


class OutputFormat(StrEnum):
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
        return self in {OutputFormat.ARROW, OutputFormat.PARQUET}

    @property
    def objects(self) -> bool:
        """Whether rows become JSON objects."""
        return self in {OutputFormat.JSON, OutputFormat.JSONL}


def pinned(name: str, source: str) -> OutputFormat:
    """The format that a setting names. Raises InvalidSetting with what is allowed."""
    try:
        return OutputFormat(name)
    except ValueError:
        raise InvalidSetting(
            f"There is no format {name!r} (set by {source}); there are: {', '.join(OutputFormat)}."
        ) from None


def refuse_terminal(format: OutputFormat, out: TextIO) -> None:  # noqa: A002
    """Bytes on a terminal help nobody."""
    if format.binary and out.isatty():
        raise InvalidSetting(
            f"The format {format} is binary and is not written to a terminal.",
            hint=f"redirect it: … --format {format} > result.{format}",
        )


def writer(
    pinned_format: OutputFormat | None,
    out: TextIO,
    columns: Sequence[OutputColumn],
    sample: Sequence[Row],
    *,
    colour: bool,
) -> Writer:
    """The writer for one result.

    Without a pinned format: on a terminal a table, or vertical where that would be too wide;
    elsewhere CSV. Not for the binary formats and `none`, which are not made of rows.
    """
    chosen = pinned_format or _fitting(out, columns, sample)
    if chosen is OutputFormat.TABLE:
        return TableWriter(out, Lines(out.encoding, colour=colour))
    if chosen is OutputFormat.VERTICAL:
        return VerticalWriter(out, Lines(out.encoding, colour=colour))
    return _PLAIN[chosen](out)


_PLAIN: dict[OutputFormat, Callable[[TextIO], Writer]] = {
    OutputFormat.CSV: CsvWriter,
    OutputFormat.TSV: TsvWriter,
    OutputFormat.JSON: JsonWriter,
    OutputFormat.JSONL: JsonLinesWriter,
    OutputFormat.MARKDOWN: MarkdownWriter,
}


def _fitting(out: TextIO, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> OutputFormat:
    if not out.isatty():
        return OutputFormat.CSV
    fits = table_width(columns, sample) <= shutil.get_terminal_size().columns
    return OutputFormat.TABLE if fits else OutputFormat.VERTICAL
