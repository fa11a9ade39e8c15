"""`headrace session`: the contexts that statements run in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from headrace.cli import options
from headrace.cli.command import command
from headrace.cli.listing import write_list, write_object
from headrace.cli.output.formats import OutputFormat

_COLUMNS = ("id", "name", "state", "busy", "profile", "owner", "created_at", "ended_at")

_named = click.argument("name", metavar="SESSION")


@click.group()
def session() -> None:
    """Sessions, by id or name: make, list, show, read the log, close."""


@session.command()
@click.option("--name", metavar="NAME", help="A name to call it by.")
@options.profile
@options.conf
@click.option(
    "--kind",
    type=click.Choice(["interactive", "batch", "streaming"]),
    help="Batch quits after one statement; streaming stays while a stream runs.",
)
@click.option(
    "--parallelism",
    type=click.IntRange(1, 64),
    metavar="N",
    help="How many of its queries run at once.",
)
@click.option("--idle-timeout", metavar="DURATION", help="Close it when idle for so long.")
@click.option("--ttl", metavar="DURATION", help="Close it so long after it was made.")
@click.option("--catalog", metavar="NAME", help="Its current catalog.")
@click.option("--database", metavar="NAME", help="Its current database.")
@click.option("--jar", "jars", multiple=True, metavar="URI", help="A jar to add; repeatable.")
@click.option("--file", "files", multiple=True, metavar="URI", help="A file to add; repeatable.")
@click.option("--py-file", "py_files", multiple=True, metavar="URI", help="Python; repeatable.")
@options.connected
def new(
    *,
    conf: Sequence[str],
    server: str | None,
    home: str | None,
    debug: bool,
    **fields: Any,
) -> None:
    """Make a session and print its id."""
    with command(server=server, home=home, debug=debug) as this:
        body = {**fields, "conf": options.pairs(conf, "--conf")}
        made = this.connect(new_home=True).create_session(
            {key: value for key, value in body.items() if value}
        )
        this.terminal.out.write(made["id"] + "\n")


@session.command("list")
@click.option("--state", metavar="STATE", help="Only those in this state.")
@options.before
@options.limit
@options.output
@options.connected
def list_sessions(
    *,
    state: str | None,
    before: str | None,
    limit: int,
    output: OutputFormat | None,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """List sessions, newest first."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        client = this.connect()
        page = client.sessions(state=state, before=before, limit=str(limit))
        write_list(this.terminal, page, _COLUMNS, chosen)


@session.command()
@_named
@options.output
@options.connected
def show(
    *, name: str, output: OutputFormat | None, server: str | None, home: str | None, debug: bool
) -> None:
    """Show one session."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        write_object(this.terminal, this.connect().session(name), chosen)


@session.command()
@_named
@click.option(
    "--tail", type=click.IntRange(1), metavar="BYTES", help="How much of its end, at most."
)
@options.connected
def log(*, name: str, tail: int | None, server: str | None, home: str | None, debug: bool) -> None:
    """Print what a session's driver wrote."""
    with command(server=server, home=home, debug=debug) as this:
        this.terminal.out.write(this.connect().session_log(name, tail))


@session.command()
@click.argument("names", nargs=-1, required=True, metavar="SESSION...")
@options.quiet
@options.connected
def close(
    *, names: Sequence[str], quiet: bool, server: str | None, home: str | None, debug: bool
) -> None:
    """Close sessions: what waits or runs in them is cancelled, their results stay."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        client = this.connect()
        for name in names:
            closed = client.close_session(name)
            this.terminal.tell(f"{closed['id']} is {closed['state']}.")
