"""`headrace audit`: who did, read, or was refused what."""

from __future__ import annotations

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_page
from headrace.cli.support.readable import format_age_of

_FIELDS = ("id", "at", "action", "actor", "token_id", "address", "target", "detail", "node_id")
_LIST_COLUMNS = (
    ListColumn(title="AGE", text=lambda item: format_age_of(item["at"]), right=True),
    ListColumn(title="ACTION", text=lambda item: item["action"]),
    ListColumn(title="USER", text=lambda item: item["actor"], flexible=True),
    ListColumn(title="FROM", text=lambda item: item["address"]),
    ListColumn(title="OBJECT", text=lambda item: item["target"], flexible=True),
    ListColumn(
        title="DETAIL",
        text=lambda item: ", ".join(f"{key} {value}" for key, value in item["detail"].items()),
        flexible=True,
    ),
)


@click.command()
@click.option("--action", metavar="ACTION", help="Only records about this, e.g. result_read.")
@click.option("--actor", metavar="USER", help="Only records of this user.")
@click.option("--target", metavar="ID", help="Only records of this statement, token, user or node.")
@options.before
@options.limit
@options.output
@with_context
def audit(
    context: CommandContext,
    *,
    action: str | None,
    actor: str | None,
    target: str | None,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List who did, read, or was refused what, newest first."""
    page = context.connect().page(
        "audit", action=action, actor=actor, target=target, before=before, limit=limit
    )
    write_page(context.terminal, page, _FIELDS, output_format, _LIST_COLUMNS)
