"""`headrace session`: the contexts that statements run in."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import options
from headrace.cli.command import command
from headrace.cli.objects import write_list, write_object

app = typer.Typer(name="session", help="Sessions: make, list, show, read the log, close.")

Name = Annotated[str, typer.Argument(metavar="SESSION", help="Id or name.")]
_COLUMNS = ("id", "name", "state", "busy", "profile", "owner", "created_at", "ended_at")


@app.command()
def new(
    *,
    name: Annotated[str | None, typer.Option(help="A name to call it by.")] = None,
    profile: options.Profile = None,
    conf: options.Conf = None,
    catalog: Annotated[str | None, typer.Option(help="Its current catalog.")] = None,
    database: Annotated[str | None, typer.Option(help="Its current database.")] = None,
    jar: Annotated[list[str] | None, typer.Option(help="A jar to add; repeatable.")] = None,
    file: Annotated[list[str] | None, typer.Option(help="A file to add; repeatable.")] = None,
    py_file: Annotated[list[str] | None, typer.Option(help="Python to add; repeatable.")] = None,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Make a session and print its id."""
    body = {
        "name": name,
        "profile": profile,
        "catalog": catalog,
        "database": database,
        "jars": jar,
        "files": file,
        "py_files": py_file,
    }
    with command(server=server, home=home, debug=debug) as this:
        body["conf"] = options.pairs(conf, "--conf")  # type: ignore[assignment]
        made = this.connect().create_session({key: value for key, value in body.items() if value})
        this.terminal.out.write(made["id"] + "\n")


@app.command("list")
def list_sessions(
    *,
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those of this name.")] = None,
    limit: options.Limit = 100,
    output: options.Output = None,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """List sessions, newest first."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        client = this.connect(start=False)
        page = client.sessions(state=state, name=name, limit=str(limit))
        write_list(this.terminal, page, _COLUMNS, chosen)


@app.command()
def show(
    session: Name,
    *,
    output: options.Output = None,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Show one session."""
    with command(server=server, home=home, debug=debug) as this:
        chosen = this.format(output)
        write_object(this.terminal, this.connect(start=False).session(session), chosen)


@app.command()
def log(
    session: Name,
    *,
    tail: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Only the last bytes.")
    ] = None,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Print what a session's driver wrote."""
    with command(server=server, home=home, debug=debug) as this:
        this.terminal.out.write(this.connect(start=False).session_log(session, tail))


@app.command()
def close(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", help="Ids or names.")],
    *,
    quiet: options.Quiet = False,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Close sessions; their waiting statements fail, their results stay."""
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        client = this.connect(start=False)
        for session in sessions:
            closed = client.close_session(session)
            this.terminal.tell(f"{closed['id']} is {closed['state']}.")
