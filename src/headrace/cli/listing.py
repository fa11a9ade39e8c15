"""Output of API objects, such as sessions, in the output formats."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headrace.cli.output.base import OutputColumn
from headrace.cli.output.formats import OutputFormat, make_writer
from headrace.cli.output.text import to_text
from headrace.cli.terminal import Terminal
from headrace.client.http import Json
from headrace.errors import InvalidRequest


def write_page(
    terminal: Terminal, page: Json, fields: Sequence[str], output_format: OutputFormat | None
) -> None:
    """Write the objects of a page, and a hint for the next page.

    JSON formats hold all fields of the objects, all other formats only `fields`.
    """
    if output_format in {OutputFormat.JSON, OutputFormat.JSONL} and page["items"]:
        fields = list(page["items"][0])
    write_items(terminal, page["items"], fields, output_format)
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
                terminal.out.write(f"{name.ljust(size)}  {to_text(value)}\n")
    else:
        write_items(terminal, [item], list(item), output_format)


def write_items(
    terminal: Terminal,
    items: Sequence[Json],
    fields: Sequence[str],
    output_format: OutputFormat | None,
) -> None:
    """Write some fields of the objects, one object per row.

    Raises InvalidRequest if the format is binary.
    """
    if output_format is OutputFormat.NONE:
        return
    if output_format is not None and output_format.is_binary:
        raise InvalidRequest(
            f"The format {output_format} is available for results of statements only. Choose "
            "another one, for example json."
        )
    columns = [OutputColumn(name, "string") for name in fields]
    rows = [[item.get(name) for name in fields] for item in items]
    writer = make_writer(output_format, terminal.out, columns, rows, colour=terminal.colour)
    writer.begin(columns, rows)
    writer.write_rows(rows)
    writer.end()
