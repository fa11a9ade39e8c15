"""`headrace token`: create, list, revoke tokens."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_page
from headrace.cli.support.readable import format_age_of, format_remaining
from headrace.model.identity import Scope

_FIELDS = ("id", "name", "owner", "scope", "state", "created_at", "expires_at", "last_used_at")
_LIST_COLUMNS = (
    ListColumn(title="NAME", text=lambda item: item["name"], flexible=True),
    ListColumn(title="OWNER", text=lambda item: item["owner"], flexible=True),
    ListColumn(title="SCOPE", text=lambda item: item["scope"]),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(
        title="EXPIRES IN", text=lambda item: format_remaining(item["expires_at"]), right=True
    ),
    ListColumn(title="USED", text=lambda item: format_age_of(item["last_used_at"]), right=True),
)


@click.group()
def token() -> None:
    """Create, list and revoke the tokens of your programs."""


@token.command()
@click.option("--name", required=True, metavar="NAME", help="Name of the token.")
@click.option(
    "--expires", required=True, metavar="TIME", help="Time after which it expires, e.g. 90d."
)
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in Scope]),
    default=Scope.SUBMIT.value,
    show_default=True,
    help="What the token allows at most: to read; to create and change objects too; or all that"
    " your roles allow.",
)
@click.option("--owner", metavar="OWNER", help="Let it act for group:NAME, a group of yours.")
@with_context
def create(context: CommandContext, **fields: Any) -> None:
    """Create a token and print it. It is shown only once."""
    request = {key: value for key, value in fields.items() if value is not None}
    created = context.connect().create("tokens", request)
    context.terminal.notice(
        f"The token {created['name']} acts for {created['owner']} until {created['expires_at']}."
    )
    context.terminal.out.write(created["token"] + "\n")


@token.command("list")
@options.all_owners
@options.before
@options.limit
@options.output
@with_context
def list_tokens(
    context: CommandContext,
    *,
    all_owners: bool,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List your tokens and those of your groups, newest first."""
    client = context.connect()
    page = client.page(
        "tokens", before=before, limit=limit, all_owners="true" if all_owners else None
    )
    write_page(context.terminal, page, _FIELDS, output_format, _LIST_COLUMNS)


@token.command()
@click.argument("name", metavar="TOKEN")
@with_context
def revoke(context: CommandContext, *, name: str) -> None:
    """Revoke a token, by its name or id. All nodes refuse it within two seconds."""
    revoked = context.connect().remove("tokens", name)
    context.terminal.notice(f"The token {revoked['name']} of {revoked['owner']} is revoked.")
