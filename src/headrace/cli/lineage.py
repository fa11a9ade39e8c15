"""`headrace lineage`: the tables before and after a table, and the statements between them."""

from __future__ import annotations

import json

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_items
from headrace.cli.support.readable import format_age_of

_FIELDS = (
    *("side", "depth", "source", "target", "job", "statements"),
    *("last_statement", "last_run", "last_at"),
)
_LIST_COLUMNS = (
    ListColumn(title="SIDE", text=lambda item: item["side"]),
    ListColumn(title="DEPTH", text=lambda item: item["depth"], right=True),
    ListColumn(title="FROM", text=lambda item: item["source"], flexible=True),
    ListColumn(title="TO", text=lambda item: item["target"], flexible=True),
    ListColumn(title="JOB", text=lambda item: item["job"], flexible=True),
    ListColumn(title="STATEMENTS", text=lambda item: item["statements"], right=True),
    ListColumn(title="LAST", text=lambda item: item["last_statement"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["last_at"]), right=True),
)


@click.command()
@click.argument("table", metavar="TABLE")
@click.option(
    "--upstream", "direction", flag_value="upstream", help="Only what it was written from."
)
@click.option(
    "--downstream", "direction", flag_value="downstream", help="Only what was written from it."
)
@click.option("--depth", type=click.IntRange(1, 10), default=3, show_default=True)
@options.all_owners
@options.output
@with_context
def lineage(
    context: CommandContext,
    *,
    table: str,
    direction: str | None,
    depth: int,
    all_owners: bool,
    output_format: OutputFormat | None,
) -> None:
    """Show the tables before and after a table.

    TABLE is the name of a table, or the location of files. Each line has the statements and
    streaming queries that have read one table and written another one.
    """
    graph = context.connect().lineage(
        table, direction=direction, depth=depth, all_owners=all_owners
    )
    if output_format is OutputFormat.JSON:
        context.terminal.out.write(json.dumps(graph, ensure_ascii=False, indent=2) + "\n")
        return
    write_items(context.terminal, graph["edges"], _FIELDS, output_format, _LIST_COLUMNS)
    if graph["truncated"]:
        context.terminal.warn("There are more. Use --upstream, --downstream or a smaller --depth.")
