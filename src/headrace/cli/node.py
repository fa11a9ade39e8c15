"""`headrace node`: list the nodes of a cluster, drain one, confirm that one is gone."""

from __future__ import annotations

import click

from headrace.cli import options
from headrace.cli.command import command_context
from headrace.cli.listing import write_items
from headrace.cli.output.formats import OutputFormat

_FIELDS = ("id", "state", "address", "host", "version", "profiles", "lease_until")

_id_argument = click.argument("node_id", metavar="ID")


@click.group()
def node() -> None:
    """List, drain and end the nodes of a cluster."""


@node.command("list")
@options.output
@options.connection_options
def list_nodes(
    *, output: OutputFormat | None, server: str | None, home: str | None, debug: bool
) -> None:
    """List the nodes of the store, with their leases."""
    with command_context(server=server, home=home, debug=debug) as context:
        output_format = context.output_format(output)
        write_items(context.terminal, context.connect().nodes(), _FIELDS, output_format)


@node.command()
@_id_argument
@options.connection_options
def drain(*, node_id: str, server: str | None, home: str | None, debug: bool) -> None:
    """Let a node leave. It begins nothing new, hands its work over, and stops."""
    with command_context(server=server, home=home, debug=debug) as context:
        drained = context.connect().drain_node(node_id)
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
        ended = context.connect().confirm_node_gone(node_id)
        context.terminal.notice(f"Node {ended['id']} is {ended['state']}.")
