"""`headrace node`: list the nodes of a cluster, drain one, confirm that one is gone."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, command_context, with_context
from headrace.cli.support.listing import ListColumn, write_items
from headrace.cli.support.readable import format_age_of, format_remaining, parse_instant
from headrace.cli.support.references import resolve_node
from headrace.client.http import Json

_FIELDS = ("id", "state", "address", "host", "version", "profiles", "lease_until")


def _describe_lease(node: Json) -> str | None:
    """Return how long the lease of a node is still valid; None if the node is gone."""
    until = parse_instant(node.get("lease_until"))
    if until is None or node["state"] == "gone":
        return None
    return format_remaining(node["lease_until"]) if until > datetime.now(UTC) else "expired"


_LIST_COLUMNS = (
    ListColumn(title="ID", text=lambda item: item["id"]),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["started_at"]), right=True),
    ListColumn(title="LEASE", text=_describe_lease, right=True),
    ListColumn(title="ADDRESS", text=lambda item: item.get("address"), flexible=True),
    ListColumn(title="HOST", text=lambda item: item.get("host"), flexible=True),
    ListColumn(title="VERSION", text=lambda item: item.get("version")),
    ListColumn(
        title="PROFILES", text=lambda item: ", ".join(item.get("profiles", ())), flexible=True
    ),
)

_id_argument = click.argument("node_id", metavar="ID")


@click.group()
def node() -> None:
    """List, drain and end the nodes of a cluster. ID is an id or the beginning of an id."""


@node.command("list")
@options.output
@with_context
def list_nodes(context: CommandContext, *, output_format: OutputFormat | None) -> None:
    """List the nodes of the store, with their leases."""
    nodes = context.connect().nodes()
    write_items(context.terminal, nodes, _FIELDS, output_format, _LIST_COLUMNS)


@node.command()
@_id_argument
@with_context
def drain(context: CommandContext, *, node_id: str) -> None:
    """Let a node leave. It begins nothing new, hands its work over, and stops."""
    client = context.connect()
    drained = client.drain_node(resolve_node(client, node_id))
    context.terminal.notice(f"Node {drained['id']} is {drained['state']}.")


@node.command()
@_id_argument
@click.option(
    "--confirmed",
    is_flag=True,
    help="Confirm that the node, and every driver on its host, have ended.",
)
@options.connection_options
def gone(
    *, node_id: str, confirmed: bool, server: str | None, home: str | None, debug: bool
) -> None:
    """Confirm that a lost node, and every driver on its host, have ended.

    Sessions whose drivers only that node could reach then continue in other drivers. If a driver
    still runs, its files and tables may change at the same time as those of the new driver.
    """
    if not confirmed:
        raise click.UsageError(
            "Make sure that the node and every driver on its host have ended, then repeat the"
            " command with --confirmed."
        )
    with command_context(server=server, home=home, debug=debug) as context:
        client = context.connect()
        ended = client.confirm_node_gone(resolve_node(client, node_id))
        context.terminal.notice(f"Node {ended['id']} is {ended['state']}.")
