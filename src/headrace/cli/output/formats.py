"""The output formats by name, and the choice of the writer for a result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TextIO

from headrace.cli.output.base import OutputColumn, Row, Writer
from headrace.cli.output.delimited import CsvWriter, MarkdownWriter, TsvWriter
from headrace.cli.output.json import JsonLinesWriter, JsonWriter
from headrace.cli.output.table import TableStyle, TableWriter, VerticalWriter, table_width
from headrace.errors import InvalidSetting


class OutputFormat(StrEnum):
    """Formats in which commands write rows."""

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
    def is_binary(self) -> bool:
        return self in {OutputFormat.ARROW, OutputFormat.PARQUET}

    @property
    def is_json(self) -> bool:
        """True for the formats that write each row as a JSON object."""
        return self in {OutputFormat.JSON, OutputFormat.JSONL}


def parse_format(name: str, source: str) -> OutputFormat:
    """Return the format with this name.

    Args:
        source: Origin of the name, for the error message.

    Raises:
        InvalidSetting: No format has this name; the message lists the formats.
    """
    try:
        return OutputFormat(name)
    except ValueError:
        raise InvalidSetting(
            f"The format {name!r} (set by {source}) does not exist. Choose one of: "
            f"{', '.join(OutputFormat)}."
        ) from None


def refuse_terminal(format: OutputFormat, out: TextIO) -> None:  # noqa: A002
    """Raise InvalidSetting if a binary format would be written to a terminal."""
    if format.is_binary and out.isatty():
        raise InvalidSetting(
            f"The format {format} is binary and cannot be shown on a terminal.",
            hint=f"redirect the output: … --format {format} > result.{format}",
        )


def make_writer(
    output_format: OutputFormat | None,
    out: TextIO,
    columns: Sequence[OutputColumn],
    sample: Sequence[Row],
    *,
    colour: bool,
) -> Writer:
    """Return the writer for one result.

    Args:
        output_format: One of the text formats; neither a binary one nor `none`. None selects a
            table on a terminal (vertical if the table would be too wide), and CSV elsewhere.
        sample: The first rows.
    """
    chosen_format = output_format or _default_format(out, columns, sample)
    if chosen_format is OutputFormat.TABLE:
        return TableWriter(out, TableStyle(out.encoding, colour=colour))
    if chosen_format is OutputFormat.VERTICAL:
        return VerticalWriter(out, TableStyle(out.encoding, colour=colour))
    return _TEXT_WRITERS[chosen_format](out)


_TEXT_WRITERS: dict[OutputFormat, Callable[[TextIO], Writer]] = {
    OutputFormat.CSV: CsvWriter,
    OutputFormat.TSV: TsvWriter,
    OutputFormat.JSON: JsonWriter,
    OutputFormat.JSONL: JsonLinesWriter,
    OutputFormat.MARKDOWN: MarkdownWriter,
}


def _default_format(
    out: TextIO, columns: Sequence[OutputColumn], sample: Sequence[Row]
) -> OutputFormat:
    if not out.isatty():
        return OutputFormat.CSV
    fits = table_width(columns, sample) <= shutil.get_terminal_size().columns
    return OutputFormat.TABLE if fits else OutputFormat.VERTICAL
