"""`headrace recover`: tables that a crash has left unfinished, finished or removed now."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import click
from click.exceptions import Exit

from headrace.cli import options
from headrace.cli.command import Command, command
from headrace.cli.listing import write_items
from headrace.cli.output.formats import OutputFormat
from headrace.client.http import Client, Json
from headrace.errors import EXIT_FAILED, SessionFailed

_COLUMNS = ("id", "target", "state", "action", "statement_id")
_SAME_DRIVER = ("profile", "conf", "catalog", "database", "jars", "files", "py_files")
_ENDED = {"committed", "aborted"}
_LOOK_SECONDS = 0.5
_IN_HAND_SECONDS = 30.0


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what is left, and what would be done.")
@options.output
@options.quiet
@options.connected
def recover(
    *,
    dry_run: bool,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Finish or remove the tables that nobody drives any more.

    What was being published is published, anything else is removed; each by a driver like the one
    that began it. Every driver does so for its own catalogs when it starts: this is for now.

    Leaves with 1 when something is left that could not be done.
    """
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        chosen = this.format(output)
        client = this.connect()
        found = client.transactions(left="true")["items"]
        if not dry_run:
            for session in _drivers(client, found):
                _start(this, client, session)
        told = [_told(one if dry_run else _settled(client, one["id"])) for one in found]
        if told or chosen is not None:
            write_items(this.terminal, told, _COLUMNS, chosen)
        if not told:
            this.terminal.tell("Nothing is left unfinished.")
        if not dry_run and any(one["state"] not in _ENDED for one in told):
            raise Exit(EXIT_FAILED)


def _drivers(client: Client, found: Iterable[Json]) -> list[Json]:
    """What drivers are to be like that can do it: one for each configuration there was."""
    wanted: dict[str, Json] = {}
    for one in found:
        session = client.session(one["session_id"])
        # With another parallelism than a warm driver has: that one has started already.
        body = {name: session[name] for name in _SAME_DRIVER if session[name]} | {"parallelism": 2}
        wanted[json.dumps(body, sort_keys=True)] = body
    return list(wanted.values())


def _start(this: Command, client: Client, body: Json) -> None:
    """A driver does it before it is up. Raises SessionFailed when it does not come up."""
    session = client.create_session(body)
    try:
        while session["state"] in {"not_started", "starting"}:
            time.sleep(_LOOK_SECONDS)
            session = client.session(session["id"])
        if session["state"] != "running":
            error = session.get("error") or {}
            raise SessionFailed(f"No driver could be started: {error.get('message', '')}")
    finally:
        client.close_session(session["id"])
    this.terminal.tell(f"Its log: headrace session log {session['id']}")


def _settled(client: Client, transaction_id: str) -> Json:
    """A transaction that is done, or left again; another driver may have it in hand just now."""
    deadline = time.monotonic() + _IN_HAND_SECONDS
    while True:
        found = client.transaction(transaction_id)
        if found["state"] in _ENDED or found["left"] or time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_SECONDS)


def _told(transaction: Json) -> Json:
    state = transaction["state"]
    done = {"committed": "published", "aborted": "removed", "committing": "publish"}
    return {**transaction, "action": done.get(state, "remove")}
