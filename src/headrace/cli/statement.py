"""`headrace statement`: what was submitted, and what became of it."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import follow, options
from headrace.cli.command import Command, command
from headrace.cli.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.objects import write_list, write_object
from headrace.cli.present import Presenter, exit_code
from headrace.cli.progress import Progress
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT

app = typer.Typer(
    name="statement", help="Statements: list, show, read, wait for, come back to, cancel."
)

Id = Annotated[str, typer.Argument(metavar="STATEMENT", help="Its id.")]
_COLUMNS = ("id", "state", "statement", "session_id", "owner", "created_at", "ended_at")


@app.command("list")
def list_statements(
    *,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    limit: options.Limit = 100,
    output: options.Output = None,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """List statements, newest first."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        client = this.connect(start=False)
        page = client.statements(session=session, state=state, limit=str(limit))
        write_list(this.terminal, page, _COLUMNS, chosen)


@app.command()
def show(
    statement: Id,
    *,
    output: options.Output = None,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Show one statement; --debug includes the stack trace of its error."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        found = this.connect(start=False).statement(statement, trace=debug)
        write_object(this.terminal, found, chosen)


@app.command()
def result(
    statement: Id,
    *,
    output: options.Output = None,
    quiet: options.Quiet = False,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Write the rows of a statement that has ended."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        chosen = this.format(output)
        client = this.connect(start=False)
        found = client.statement(statement)
        if not follow.has_ended(found):
            client.rows(statement)  # the node says why there is none
        code = _present(Presenter(client, this.terminal, chosen), found)
        raise typer.Exit(code)


@app.command()
def cancel(
    statement: Id,
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Stay until it has really ended.")
    ] = True,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Cancel a statement and say how it really ended."""
    with command(server=server, home=home, debug=debug) as this:
        client = this.connect(start=False)
        asked = client.cancel(statement)
        if wait:
            asked = follow.cancel(client, asked)
        this.terminal.out.write(asked["state"] + "\n")


@app.command("wait")
def wait_for(
    statement: Id,
    *,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="For how long, e.g. 30s.")
    ] = None,
    quiet: options.Quiet = False,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Wait until a statement has ended and print its state. An interrupt leaves it running."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this, Interrupts() as stop:
        limit = None if timeout is None else options.seconds(timeout, "--timeout")
        client = this.connect(start=False)
        found = _follow(this, client, client.statement(statement), stop, limit)
        this.terminal.out.write(found["state"] + "\n")
        raise typer.Exit(exit_code(found) if follow.has_ended(found) else EXIT_TIMEOUT)


@app.command()
def attach(
    statement: Id,
    *,
    output: options.Output = None,
    quiet: options.Quiet = False,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Come back to a statement: its progress, then its rows. An interrupt cancels it."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this, Interrupts() as stop:
        chosen = this.format(output)
        client = this.connect(start=False)
        found = client.statement(statement)
        try:
            found = _follow(this, client, found, stop, None)
        except Interrupted:
            this.terminal.warn(follow.cancelled_in_the_end(follow.cancel(client, found)))
            raise typer.Exit(EXIT_INTERRUPTED) from None
        with stop.stoppable():
            code = _present(Presenter(client, this.terminal, chosen), found)
        raise typer.Exit(code)


def _follow(
    this: Command, client: Client, found: Json, stop: Interrupts, limit: float | None
) -> Json:
    progress = Progress(this.terminal.err, enabled=this.terminal.narrates)
    return follow.follow(client, found, stop, progress, limit=limit)


def _present(presenter: Presenter, found: Json) -> int:
    code = exit_code(found)
    if code:
        presenter.failed(found)
    else:
        presenter.result(found)
        presenter.told(found)
    return code
