"""`headrace session`: create, list, show and close sessions, and read their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_object, write_page
from headrace.cli.support.readable import describe_session, format_age_of, format_elapsed
from headrace.cli.support.references import resolve_session
from headrace.client.http import Json
from headrace.errors import SessionEnded
from headrace.model.lifecycle import SESSION
from headrace.model.request_fields import SessionFields

_LIST_FIELDS = ("id", "name", "state", "busy", "profile", "owner", "created_at", "ended_at")


def _describe_name(session: Json) -> str | None:
    """Return the name of a session or what it is for; None if there is only an id."""
    name = describe_session(session)
    return None if name == session["id"] else name


def _describe_state(session: Json) -> str:
    return f"{session['state']}, busy" if session["busy"] else str(session["state"])


_LIST_COLUMNS = (
    ListColumn(title="ID", text=lambda item: item["id"]),
    ListColumn(title="NAME", text=_describe_name, flexible=True),
    ListColumn(title="STATE", text=_describe_state),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(title="TIME", text=format_elapsed, right=True),
    ListColumn(title="KIND", text=lambda item: item.get("kind"), flexible=True),
    ListColumn(title="PROFILE", text=lambda item: item["profile"], flexible=True),
)

_session_argument = click.argument("name", metavar="SESSION")


@click.group()
def session() -> None:
    """Create, list, show and close sessions.

    SESSION is an id, the beginning of an id, or the name of a live session.
    """


@session.command()
@click.option("--name", metavar="NAME", help="Name of the session; unique among live sessions.")
@options.profile
@options.conf
@click.option(
    "--kind",
    type=click.Choice(["interactive", "batch", "streaming"]),
    help="batch: the driver ends after one statement. streaming: it stays while a stream runs.",
)
@click.option(
    "--parallelism",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of queries that may run at the same time; default: sessions.parallelism.",
)
@options.request_fields(SessionFields)
@options.owner
@click.option("--catalog", metavar="NAME", help="Current catalog.")
@click.option("--database", metavar="NAME", help="Current database.")
@click.option("--jar", "jars", multiple=True, metavar="URI", help="Add a jar; repeatable.")
@click.option("--file", "files", multiple=True, metavar="URI", help="Add a file; repeatable.")
@click.option(
    "--py-file", "py_files", multiple=True, metavar="URI", help="Add a Python file; repeatable."
)
@with_context
def new(context: CommandContext, *, conf: Sequence[str], **fields: Any) -> None:
    """Create a session and print its id."""
    request = {**fields, "conf": options.parse_pairs(conf, "--conf")}
    session = context.connect(new_home=True).create_session(
        {key: value for key, value in request.items() if value}
    )
    context.terminal.out.write(session["id"] + "\n")


@session.command("list")
@click.option("--state", metavar="STATE", help="List only sessions in this state.")
@options.all_owners
@options.before
@options.limit
@options.output
@with_context
def list_sessions(
    context: CommandContext,
    *,
    state: str | None,
    all_owners: bool,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List sessions, newest first."""
    client = context.connect()
    page = client.sessions(state=state, before=before, limit=limit, all_owners=all_owners)
    write_page(context.terminal, page, _LIST_FIELDS, output_format, _LIST_COLUMNS)


@session.command()
@_session_argument
@options.output
@with_context
def show(context: CommandContext, *, name: str, output_format: OutputFormat | None) -> None:
    """Show one session."""
    client = context.connect()
    session = client.session(resolve_session(client, name))
    write_object(context.terminal, session, output_format)


@session.command()
@_session_argument
@click.option(
    "--tail", type=click.IntRange(1), metavar="BYTES", help="Print only the last BYTES of the log."
)
@with_context
def log(context: CommandContext, *, name: str, tail: int | None) -> None:
    """Print the log of a session's driver."""
    client = context.connect()
    context.terminal.out.write(client.session_log(resolve_session(client, name), tail))


@session.command()
@click.argument("names", nargs=-1, required=True, metavar="SESSION...")
@options.quiet
@with_context
def close(context: CommandContext, *, names: Sequence[str]) -> None:
    """Close sessions.

    Their waiting and running statements are cancelled. Results remain available.
    """
    client = context.connect()
    for name in names:
        session = client.session(resolve_session(client, name))
        if session["state"] in SESSION.terminal:
            raise SessionEnded(
                f"The session {session['id']} cannot be closed: it is {session['state']}.",
                hint="headrace session list shows the live sessions.",
            )
        session = client.close_session(session["id"])
        context.terminal.info(f"The session {session['id']} is {session['state']}.")
