"""`headrace quota`: the limits of an owner, and what it uses."""

from __future__ import annotations

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_items
from headrace.client.http import Json

_FIELDS = ("name", "used", "value", "setting")


def _show_number(value: object) -> str | None:
    return f"{value:,}" if isinstance(value, int) else None if value is None else str(value)


def _show_value(item: Json) -> str:
    return _show_number(item["value"]) or "no limit"


_LIST_COLUMNS = (
    ListColumn(title="LIMIT", text=lambda item: item["name"]),
    ListColumn(title="USED", text=lambda item: _show_number(item["used"]), right=True),
    ListColumn(title="VALUE", text=_show_value, right=True),
    ListColumn(title="SETTING", text=lambda item: item["setting"], flexible=True),
)


@click.command()
@click.option(
    "--owner",
    metavar="OWNER",
    help="Show those of group:NAME, a group of yours; as an operator, an auditor or an"
    " administrator, those of any user or group.",
)
@options.output
@with_context
def quota(
    context: CommandContext, *, owner: str | None, output_format: OutputFormat | None
) -> None:
    """Show your limits, and what you use at present."""
    shown = context.connect().quota(owner)
    write_items(context.terminal, shown["limits"], _FIELDS, output_format, _LIST_COLUMNS)
