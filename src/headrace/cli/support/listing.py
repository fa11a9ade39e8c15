"""Output of API objects, such as sessions: compact lists on a terminal, else the formats of rows.

Output on a terminal is for people: lists have short ids and ages, pages for one object have times
in the zone of the terminal. Pipes and all other formats have whole ids, and times as the API writes
them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.cli.output.formats import OutputFormat, make_writer
from headrace.cli.output.text import to_text
from headrace.cli.output.writers import OutputColumn
from headrace.cli.support.readable import (
    format_age_of,
    format_local_time,
    is_time_field,
    shorten_ids,
    style_of_state,
)
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Json
from headrace.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumn:
    """A column of a list on a terminal."""

    title: str
    text: Callable[[Json], object]
    """Returns the value of an object; None is shown as nothing."""
    flexible: bool = False
    """Whether the texts may be cut to fit the terminal."""
    right: bool = False
    widest: int | None = None
    """Longest text that is not cut even if the terminal is wide; None: no limit."""


def write_page(
    terminal: Terminal,
    page: Json,
    fields: Sequence[str],
    output_format: OutputFormat | None,
    columns: Sequence[ListColumn] | None = None,
) -> None:
    """Write the objects of a page, and a hint for the next page.

    JSON formats hold all fields of the objects, all other formats only `fields`.

    Args:
        columns: Columns of the list on a terminal; default: `fields`.
    """
    if output_format in {OutputFormat.JSON, OutputFormat.JSONL} and page["items"]:
        fields = list(page["items"][0])
    write_items(terminal, page["items"], fields, output_format, columns)
    if page.get("next"):
        terminal.warn(f"There are more. Read the next page with: --before {page['next']}")


def write_object(terminal: Terminal, item: Json, output_format: OutputFormat | None) -> None:
    """Write one object with all its fields. The default format has one field per line."""
    if output_format is OutputFormat.JSON:
        terminal.out.write(json.dumps(item, ensure_ascii=False, indent=2) + "\n")
    elif output_format is None:
        size = max(map(len, item))
        for name, value in item.items():
            if value is not None:
                text = _format_field(terminal, name, value, indent=size + 2)
                terminal.out.write(f"{name.ljust(size)}  {text}\n")
    else:
        write_items(terminal, [item], list(item), output_format)


def write_items(
    terminal: Terminal,
    items: Sequence[Json],
    fields: Sequence[str],
    output_format: OutputFormat | None,
    columns: Sequence[ListColumn] | None = None,
) -> None:
    """Write some fields of the objects, one object per row.

    Args:
        columns: Columns of the list on a terminal; default: `fields`.

    Raises InvalidRequest if the format is binary.
    """
    if output_format is OutputFormat.NONE:
        return
    if output_format is not None and output_format.is_binary:
        raise InvalidRequest(
            f"The format {output_format} is available for results of statements only. Choose "
            "another one, for example json."
        )
    if output_format in {None, OutputFormat.TABLE} and terminal.out.isatty():
        _write_list(terminal, items, columns or [_make_column(name) for name in fields])
        return
    output_columns = [OutputColumn(name, "string") for name in fields]
    rows = [[item.get(name) for name in fields] for item in items]
    writer = make_writer(output_format, terminal.out, output_columns, rows, colour=terminal.colour)
    writer.begin(output_columns, rows)
    writer.write_rows(rows)
    writer.end()


def _write_list(terminal: Terminal, items: Sequence[Json], columns: Sequence[ListColumn]) -> None:
    # rich takes 0.07 s to import, which output into a pipe does not need.
    from headrace.cli.output.terminal_list import DrawnColumn, draw_list  # noqa: PLC0415

    drawn = []
    for column in columns:
        values = [column.text(item) for item in items]
        texts = ["" if value is None else to_text(value) for value in values]
        is_state = column.title == "STATE"
        drawn.append(
            DrawnColumn(
                title=column.title,
                texts=shorten_ids(texts),
                styles=[style_of_state(text) for text in texts] if is_state else [],
                flexible=column.flexible,
                right=column.right,
                widest=column.widest,
            )
        )
    width = shutil.get_terminal_size().columns
    draw_list(terminal.out, drawn, width, colour=terminal.colour)


def _make_column(field: str) -> ListColumn:
    """Return the column for a field of an object."""

    def read(item: Json) -> object:
        value = item.get(field)
        return format_age_of(value) if is_time_field(field) and value else value

    return ListColumn(title=field.replace("_", " ").upper(), text=read, flexible=True)


def _format_field(terminal: Terminal, name: str, value: object, *, indent: int) -> str:
    """Return the value of a field; on a terminal, times are in its zone, and lines indented."""
    if not terminal.out.isatty():
        return to_text(value)
    if is_time_field(name):
        return format_local_time(value)
    return to_text(value).replace("\n", "\n" + " " * indent)
