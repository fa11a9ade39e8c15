"""`headrace history`: delete old history by hand."""

from __future__ import annotations

import sys
from collections import Counter

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import write_object
from headrace.client.http import Json
from headrace.errors import InvalidRequest

_MORE = "more"


@click.group()
def history() -> None:
    """Delete the history of ended objects."""


@history.command()
@click.option(
    "--older-than",
    "older_than",
    metavar="DURATION",
    required=True,
    help="Delete what ended longer ago than this, for example 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only print how much would be deleted.")
@click.option("--yes", is_flag=True, help="Delete without a question.")
@options.output
@with_context
def purge(
    context: CommandContext,
    *,
    older_than: str,
    dry_run: bool,
    yes: bool,
    output_format: OutputFormat | None,
) -> None:
    """Delete what ended longer ago than a time.

    Results, events and logs are deleted, too.
    Nodes do the same on their own for what is older than `history.retention`. Live sessions,
    statements, streams and jobs stay, and what they need.
    """
    if options.parse_seconds(older_than, "--older-than") == 0:
        raise InvalidRequest("--older-than: 0s would delete all history. Write an age above 0.")
    client = context.connect()
    if dry_run or not yes:
        counts = client.purge_history(older_than, dry_run=True)
        if not dry_run:
            _confirm(context, counts, older_than)
    if not dry_run:
        total: Counter[str] = Counter()
        counts = {_MORE: True}
        while counts[_MORE]:
            counts = client.purge_history(older_than)
            total.update({name: count for name, count in counts.items() if name != _MORE})
            context.terminal.info(f"Deleted statements: {total['statements']:,}")
        counts = dict(total)
    counts.pop(_MORE, None)
    write_object(context.terminal, counts, output_format)


def _confirm(context: CommandContext, counts: Json, older_than: str) -> None:
    """Ask whether to delete. Raise InvalidRequest if no question can be asked."""
    if not sys.stdin.isatty():
        raise InvalidRequest(
            "There is no terminal to ask on.",
            hint="Add --yes to delete without a question, or --dry-run to see how much it is.",
        )
    what = ", ".join(f"{name} {count:,}" for name, count in counts.items() if name != _MORE)
    context.terminal.warn(f"Ended more than {older_than} ago: {what}.")
    if not click.confirm("Delete this history for ever?", err=True):
        context.terminal.warn("Nothing was deleted.")
        raise Exit(0)
