"""`headrace serve`: become a node."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace.cli import options
from headrace.cli.command import command
from headrace.cli.embedded import node_command


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 picks a free one. Default: 8040."),
    ] = None,
    embedded: Annotated[bool, typer.Option("--embedded", hidden=True)] = False,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Run a node until it is interrupted."""
    with command(home=home, debug=debug) as this:
        flags = ["--embedded"] if embedded else []
        if host is not None:
            flags += ["--host", host]
        if port is not None:
            flags += ["--port", str(port)]
        os.environ["HEADRACE_HOME"] = str(this.config.home)
        sys.stdout.flush()
        program = node_command(*flags)
        os.execv(program[0], program)  # noqa: S606 - the node takes this process over
