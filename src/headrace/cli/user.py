"""`headrace user`: list, disable, enable users."""

from __future__ import annotations

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_page
from headrace.cli.support.readable import format_age_of

_FIELDS = ("id", "name", "source", "subject", "groups", "created_at", "seen_at", "disabled_at")
_LIST_COLUMNS = (
    ListColumn(title="ID", text=lambda item: item["id"], flexible=True),
    ListColumn(title="NAME", text=lambda item: item["name"], flexible=True),
    ListColumn(title="SOURCE", text=lambda item: item["source"], flexible=True),
    ListColumn(title="GROUPS", text=lambda item: ", ".join(item["groups"]), flexible=True),
    ListColumn(title="SEEN", text=lambda item: format_age_of(item["seen_at"]), right=True),
    ListColumn(title="DISABLED", text=lambda item: format_age_of(item["disabled_at"]), right=True),
)


@click.group()
def user() -> None:
    """List, disable and enable users. ID is the id of a user."""


@user.command("list")
@click.option("--after", metavar="ID", help="Only users with larger ids.")
@options.limit
@options.output
@with_context
def list_users(
    context: CommandContext,
    *,
    after: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List the users who have signed in, by id."""
    page = context.connect().page("users", after=after, limit=limit)
    write_page(context.terminal, page, _FIELDS, output_format, _LIST_COLUMNS)


@user.command()
@click.argument("user_id", metavar="ID")
@with_context
def disable(context: CommandContext, *, user_id: str) -> None:
    """Refuse a user and its tokens, at all nodes within two seconds. What it owns goes on."""
    context.connect().act("users", user_id, "disable", idempotent=True)
    context.terminal.notice(f"The user {user_id} is disabled.")


@user.command()
@click.argument("user_id", metavar="ID")
@with_context
def enable(context: CommandContext, *, user_id: str) -> None:
    """Let a disabled user sign in again."""
    context.connect().act("users", user_id, "enable", idempotent=True)
    context.terminal.notice(f"The user {user_id} is enabled.")
