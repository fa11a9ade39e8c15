"""`headrace serve`: run a node in this process."""

from __future__ import annotations

import os
import sys

import click

from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, command_context
from headrace.cli.support.discovery import report_parent_home
from headrace.cli.support.embedded import node_command, start_node
from headrace.config.extras import install_command, require_extra
from headrace.config.home import HomeLayout


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on; 0 selects a free one. Default: 8040.",
)
@click.option(
    "--background", is_flag=True, help="Return when the node serves; `headrace stop` ends it."
)
@click.option(
    "--no-auth", is_flag=True, help="Serve without a token. Allowed on loopback addresses only."
)
@click.option("--embedded", is_flag=True, hidden=True)
@options.home
@options.debug
def serve(
    *,
    host: str | None,
    port: int | None,
    background: bool,
    no_auth: bool,
    embedded: bool,
    home: str | None,
    debug: bool,
) -> None:
    """Run a node until Ctrl-C or SIGTERM.

    If a node that a command has started serves the home, this node replaces it. Sessions and
    running statements continue.

    Requests need a token: HEADRACE_TOKEN, or the file `token` in the home, which the node creates.
    """
    with command_context(home=home, debug=debug) as context:
        require_extra("server", "A node", hint=_install_hint)
        report_parent_home(context.config, context.terminal.notice)
        flags = ["--embedded"] if embedded else []
        if no_auth:
            flags.append("--no-auth")
        if host is not None:
            flags += ["--host", host]
        if port is not None:
            flags += ["--port", str(port)]
        if background:
            _start_in_background(context, flags)
            return
        os.environ["HEADRACE_HOME"] = str(context.config.home)
        sys.stdout.flush()
        program = node_command(*flags)
        os.execv(program[0], program)  # noqa: S606 - the node replaces this process


def _install_hint() -> str:
    return (
        f"install them with {install_command('server')}, or with {install_command('all')} if"
        " drivers run on this host"
    )


def _start_in_background(context: CommandContext, flags: list[str]) -> None:
    layout = HomeLayout.at(context.config.home)
    node = start_node(layout, *flags)
    context.terminal.notice(
        f"Process {node.pid} serves the home {layout.path} at {node.address}. Its log is "
        f"{layout.node_log}. End it with headrace stop."
    )
