"""The output formats by name, and the choice of the writer for a result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from headrace.cli.output.readable_values import ReadableWriter, convert_values, needs_conversion
from headrace.cli.output.table import RawTextWriter, TableWriter, VerticalWriter, is_lone_text
from headrace.cli.output.widths import ColumnPlan
from headrace.cli.output.writers import (
    CsvWriter,
    JsonLinesWriter,
    JsonWriter,
    MarkdownWriter,
    OutputColumn,
    Row,
    TsvWriter,
    Writer,
)
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
    ARROW = "arrow"  # an Arrow IPC file
    ARROWS = "arrows"  # an Arrow IPC stream
    PARQUET = "parquet"
    NONE = "none"

    @property
    def is_binary(self) -> bool:
        return self in _DOWNLOADS

    @property
    def download(self) -> str:
        """The API's name of a binary format, in which the node writes the rows."""
        return _DOWNLOADS[self]

    @property
    def is_json(self) -> bool:
        """True for the formats that write each row as a JSON object."""
        return self in {OutputFormat.JSON, OutputFormat.JSONL}


_DOWNLOADS = {
    OutputFormat.ARROW: "arrow_file",
    OutputFormat.ARROWS: "arrow",
    OutputFormat.PARQUET: "parquet",
}
_FILE_FORMATS = {
    ".csv": OutputFormat.CSV,
    ".tsv": OutputFormat.TSV,
    ".json": OutputFormat.JSON,
    ".jsonl": OutputFormat.JSONL,
    ".ndjson": OutputFormat.JSONL,
    ".md": OutputFormat.MARKDOWN,
    ".txt": OutputFormat.TABLE,
    ".parquet": OutputFormat.PARQUET,
    ".arrow": OutputFormat.ARROW,
    ".arrows": OutputFormat.ARROWS,
}


def format_of_file(file: Path) -> OutputFormat | None:
    """Return the format that the end of a file's name selects, or None."""
    return _FILE_FORMATS.get(file.suffix.lower())


def list_file_endings() -> str:
    """Return the ends of names that select a format, for messages."""
    return ", ".join(_FILE_FORMATS)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDetails:
    """What a format for people needs to know about a result, beyond its first rows."""

    row_count: int | None = None
    """Number of rows of the result; None: not known."""
    time_zone: str | None = None
    """Time zone of the session; None: not known."""
    on_cut: Callable[[int], None] = lambda _: None
    """Called with the number of values that were cut to fit the terminal, if there are any."""


def make_writer(
    output_format: OutputFormat | None,
    out: TextIO,
    columns: Sequence[OutputColumn],
    sample: Sequence[Row],
    *,
    colour: bool,
    details: ResultDetails = ResultDetails(),
) -> Writer:
    """Return the writer for one result.

    Args:
        output_format: One of the text formats; neither a binary one nor `none`. None selects a
            table on a terminal (vertical if there are too many columns), and CSV elsewhere.
        sample: The first rows.
    """
    if output_format is None and not out.isatty():
        output_format = OutputFormat.CSV
    if output_format in _PROGRAM_FORMATS:
        return _PROGRAM_FORMATS[output_format](out)
    if not needs_conversion(columns):
        return _make_readable_writer(output_format, out, columns, sample, colour, details)
    rows = convert_values(sample, columns, details.time_zone)
    writer = _make_readable_writer(output_format, out, columns, rows, colour, details)
    return ReadableWriter(writer, columns, details.time_zone)


_PROGRAM_FORMATS: dict[OutputFormat | None, Callable[[TextIO], Writer]] = {
    OutputFormat.CSV: CsvWriter,
    OutputFormat.TSV: TsvWriter,
    OutputFormat.JSON: JsonWriter,
    OutputFormat.JSONL: JsonLinesWriter,
}
"""The formats that programs read. They keep every value as the API writes it."""


def _make_readable_writer(
    output_format: OutputFormat | None,
    out: TextIO,
    columns: Sequence[OutputColumn],
    sample: Sequence[Row],
    colour: bool,
    details: ResultDetails,
) -> Writer:
    """Return the writer for a format for people; None selects one by the width of the terminal."""
    if output_format is OutputFormat.MARKDOWN:
        return MarkdownWriter(out)
    if output_format is OutputFormat.VERTICAL:
        return VerticalWriter(out, colour=colour)
    if is_lone_text(columns, sample, details.row_count):
        return RawTextWriter(out)
    if not out.isatty():
        return TableWriter(out)
    width = shutil.get_terminal_size().columns
    if output_format is None and not ColumnPlan(columns, sample).fit(width)[1]:
        return VerticalWriter(out, colour=colour)
    return TableWriter(out, colour=colour, width=width, on_cut=details.on_cut)
