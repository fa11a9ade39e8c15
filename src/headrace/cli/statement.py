"""`headrace statement`: what was submitted, and what became of it."""

from __future__ import annotations

import click
from click.exceptions import Exit

from headrace.cli import follow, options
from headrace.cli.command import Command, command
from headrace.cli.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.listing import write_list, write_object
from headrace.cli.output.formats import OutputFormat
from headrace.cli.progress import ProgressLine
from headrace.cli.result_printer import ResultPrinter, exit_code
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT

_COLUMNS = ("id", "state", "statement", "session_id", "owner", "created_at", "ended_at")

_of_id = click.argument("id_", metavar="STATEMENT")


@click.group()
def statement() -> None:
    """Statements, by id: list, show, read, wait for, come back to, cancel."""


@statement.command("list")
@click.option("--session", metavar="SESSION", help="Only those of this session.")
@click.option("--state", metavar="STATE", help="Only those in this state.")
@options.before
@options.limit
@options.output
@options.connected
def list_statements(
    *,
    session: str | None,
    state: str | None,
    before: str | None,
    limit: int,
    output: OutputFormat | None,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """List statements, newest first."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        client = this.connect()
        page = client.statements(session=session, state=state, before=before, limit=str(limit))
        write_list(this.terminal, page, _COLUMNS, chosen)


@statement.command()
@_of_id
@options.output
@options.connected
def show(
    *, id_: str, output: OutputFormat | None, server: str | None, home: str | None, debug: bool
) -> None:
    """Show one statement; --debug includes the stack trace of its error."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        found = this.connect().statement(id_, trace=debug)
        write_object(this.terminal, found, chosen)


@statement.command()
@_of_id
@options.output
@options.quiet
@options.connected
def result(
    *,
    id_: str,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Write the rows of a statement that has ended."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        chosen = this.format(output)
        client = this.connect()
        found = client.statement(id_)
        if not follow.has_ended(found):
            client.rows(id_)  # the node says why there is none
        raise Exit(_present(ResultPrinter(client, this.terminal, chosen), found))


@statement.command()
@_of_id
@click.option("--wait/--no-wait", default=True, help="Stay until it has really ended.")
@click.option("--force", is_flag=True, help="End its driver if need be, with all that runs there.")
@options.connected
def cancel(
    *, id_: str, wait: bool, force: bool, server: str | None, home: str | None, debug: bool
) -> None:
    """Cancel a statement and print how it really ended."""
    with command(server=server, home=home, debug=debug) as this:
        client = this.connect()
        asked = client.cancel(id_, force=force)
        if wait:
            asked = follow.until_end(client, asked)
        this.terminal.out.write(asked["state"] + "\n")


@statement.command("wait")
@_of_id
@click.option("--timeout", metavar="DURATION", help="For how long, e.g. 30s.")
@options.quiet
@options.connected
def wait_for(
    *,
    id_: str,
    timeout: str | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Wait until a statement has ended and print its state. An interrupt leaves it running."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this, Interrupts() as stop:
        limit = None if timeout is None else options.seconds(timeout, "--timeout")
        client = this.connect()
        found = _follow(this, client, client.statement(id_), stop, limit)
        this.terminal.out.write(found["state"] + "\n")
        raise Exit(exit_code(found) if follow.has_ended(found) else EXIT_TIMEOUT)


@statement.command()
@_of_id
@options.output
@options.quiet
@options.connected
def attach(
    *,
    id_: str,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Come back to a statement: its progress, then its rows. An interrupt cancels it."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this, Interrupts() as stop:
        chosen = this.format(output)
        client = this.connect()
        found = client.statement(id_)
        try:
            found = _follow(this, client, found, stop, None)
        except Interrupted:
            follow.interrupted(client, found, this.terminal)
            raise Exit(EXIT_INTERRUPTED) from None
        with stop.stoppable():
            raise Exit(_present(ResultPrinter(client, this.terminal, chosen), found))


def _follow(
    this: Command, client: Client, found: Json, stop: Interrupts, limit: float | None
) -> Json:
    progress = ProgressLine(this.terminal.err, enabled=this.terminal.narrates)
    return follow.follow(client, found, stop, progress, limit=limit)


def _present(presenter: ResultPrinter, found: Json) -> int:
    code = exit_code(found)
    if code:
        presenter.failed(found)
    else:
        presenter.result(found)
        presenter.told(found)
    return code
