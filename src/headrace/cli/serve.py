"""`headrace serve`: run a node in this process."""

from __future__ import annotations

import os
import sys

import click

from headrace.cli import options
from headrace.cli.command import command_context
from headrace.cli.embedded import node_command


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on; 0 selects a free one. Default: 8040.",
)
@click.option("--embedded", is_flag=True, hidden=True)
@options.home
@options.debug
def serve(
    *, host: str | None, port: int | None, embedded: bool, home: str | None, debug: bool
) -> None:
    """Run a node until Ctrl-C or SIGTERM."""
    with command_context(home=home, debug=debug) as context:
        flags = ["--embedded"] if embedded else []
        if host is not None:
            flags += ["--host", host]
        if port is not None:
            flags += ["--port", str(port)]
        os.environ["HEADRACE_HOME"] = str(context.config.home)
        sys.stdout.flush()
        program = node_command(*flags)
        os.execv(program[0], program)  # noqa: S606 - the node replaces this process
