"""Objects of the API, such as sessions, in the output formats."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headrace.cli.output.base import OutputColumn
from headrace.cli.output.formats import OutputFormat, writer
from headrace.cli.output.text import plain
from headrace.cli.terminal import Terminal
from headrace.client.http import Json
from headrace.errors import InvalidRequest


def write_list(
    terminal: Terminal, page: Json, names: Sequence[str], chosen: OutputFormat | None
) -> None:
    """A page of objects: some fields as a table, or all of them where the format is JSON."""
    if chosen in {OutputFormat.JSON, OutputFormat.JSONL} and page["items"]:
        names = list(page["items"][0])
    write_items(terminal, page["items"], names, chosen)
    if page.get("next"):
        terminal.warn(f"There are more; --before {page['next']} goes on from here.")


def write_object(terminal: Terminal, item: Json, chosen: OutputFormat | None) -> None:
    """One object with all its fields: JSON as it came, else a field a line."""
    if chosen is OutputFormat.JSON:
        terminal.out.write(json.dumps(item, ensure_ascii=False, indent=2) + "\n")
    elif chosen is None:
        size = max(map(len, item))
        for name, value in item.items():
            if value is not None:
                terminal.out.write(f"{name.ljust(size)}  {plain(value)}\n")
    else:
        write_items(terminal, [item], list(item), chosen)


def write_items(
    terminal: Terminal, items: Sequence[Json], names: Sequence[str], chosen: OutputFormat | None
) -> None:
    """Some fields of objects, one object a row. Raises InvalidRequest for a binary format."""
    if chosen is OutputFormat.NONE:
        return
    if chosen is not None and chosen.binary:
        raise InvalidRequest(f"The format {chosen} is for results of statements only.")
    columns = [OutputColumn(name, "string") for name in names]
    rows = [[item.get(name) for name in names] for item in items]
    to = writer(chosen, terminal.out, columns, rows, colour=terminal.colour)
    to.begin(columns, rows)
    to.rows(rows)
    to.end()
