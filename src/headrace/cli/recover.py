"""`headrace recover`: resolve orphaned table transactions now."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

import click
from click.exceptions import Exit

from headrace.cli import options
from headrace.cli.command import CommandContext, command_context
from headrace.cli.listing import write_items
from headrace.cli.output.formats import OutputFormat
from headrace.client.http import Client, Json
from headrace.errors import EXIT_FAILED, SessionFailed

_FIELDS = ("id", "target", "state", "action", "statement_id")
_DRIVER_FIELDS = ("profile", "conf", "catalog", "database", "jars", "files", "py_files")
"""Fields of a session that decide which catalogs its driver reaches."""
_ENDED = {"committed", "aborted"}
_POLL_SECONDS = 0.5
_RESOLVE_SECONDS = 30.0
"""Longest wait for a transaction that another driver resolves at the same time."""
_PROGRESS_SECONDS = 10.0
"""Time without progress after which the driver is considered to have resolved all that it can."""
_ACTIONS = {"committed": "published", "aborted": "removed", "committing": "publish"}


@click.command()
@click.option(
    "--dry-run", is_flag=True, help="List the orphaned transactions and what would be done."
)
@options.output
@options.quiet
@options.connection_options
def recover(
    *,
    dry_run: bool,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Publish or remove the tables of orphaned transactions.

    A transaction is orphaned when its statement has ended and no driver works on it. A table whose
    publication had begun is published; everything else is removed. For this, the command starts a
    driver with the configuration of the one that began the transaction. Drivers do the same for
    their own catalogs whenever they start.

    The exit code is 1 if a transaction could not be resolved; the driver's log shows the reason.
    """
    with command_context(server=server, home=home, debug=debug, quiet=quiet) as context:
        output_format = context.output_format(output)
        client = context.connect()
        transactions = client.transactions(orphaned=True)["items"]
        if not dry_run:
            ids = [transaction["id"] for transaction in transactions]
            for request in _session_requests(client, transactions):
                _run_driver(context, client, request, ids)
            transactions = [
                _wait_until_resolved(client, transaction["id"]) for transaction in transactions
            ]
        if transactions or output_format is not None:
            items = [_with_action(transaction) for transaction in transactions]
            write_items(context.terminal, items, _FIELDS, output_format)
        if not transactions:
            context.terminal.info("There are no orphaned transactions.")
        if not dry_run and any(transaction["state"] not in _ENDED for transaction in transactions):
            raise Exit(EXIT_FAILED)


def _session_requests(client: Client, transactions: Iterable[Json]) -> list[Json]:
    """Return a session request for each configuration with which the transactions began."""
    requests: dict[str, Json] = {}
    for transaction in transactions:
        session = client.session(transaction["session_id"])
        request = {name: session[name] for name in _DRIVER_FIELDS if session[name]}
        # Warm sessions have the parallelism 1. Any other value makes the node start a new driver,
        # and only a driver that starts resolves transactions.
        request["parallelism"] = 2
        requests[json.dumps(request, sort_keys=True)] = request
    return list(requests.values())


def _run_driver(
    context: CommandContext, client: Client, request: Json, transaction_ids: Sequence[str]
) -> None:
    """Start a driver, let it resolve orphaned transactions, and end it.

    Raises SessionFailed if the driver does not become ready.
    """
    session = client.create_session(request)
    try:
        while session["state"] in {"not_started", "starting"}:
            time.sleep(_POLL_SECONDS)
            session = client.session(session["id"])
        if session["state"] != "running":
            error = session.get("error") or {}
            raise SessionFailed(
                f"The driver could not be started: {error.get('message', '')}",
                hint=f"see its log: headrace session log {session['id']}",
            )
        _wait_while_resolving(client, transaction_ids)
    finally:
        client.close_session(session["id"])
    context.terminal.info(f"Log of the driver: headrace session log {session['id']}")


def _wait_while_resolving(client: Client, transaction_ids: Sequence[str]) -> None:
    """Wait until all transactions have ended, or until no more of them end.

    Some may belong to other catalogs than those of the driver, or cannot be resolved.
    """
    remaining = list(transaction_ids)
    deadline = time.monotonic() + _PROGRESS_SECONDS
    while remaining and time.monotonic() < deadline:
        live = [id_ for id_ in remaining if client.transaction(id_)["state"] not in _ENDED]
        if len(live) < len(remaining):
            remaining, deadline = live, time.monotonic() + _PROGRESS_SECONDS
        if remaining:
            time.sleep(_POLL_SECONDS)


def _wait_until_resolved(client: Client, transaction_id: str) -> Json:
    """Wait until a transaction has ended or is orphaned again, and return it."""
    deadline = time.monotonic() + _RESOLVE_SECONDS
    while True:
        transaction = client.transaction(transaction_id)
        resolved = transaction["state"] in _ENDED or transaction["orphaned"]
        if resolved or time.monotonic() > deadline:
            return transaction
        time.sleep(_POLL_SECONDS)


def _with_action(transaction: Json) -> Json:
    """Add the field `action`: what was done with the table, or what remains to be done."""
    return {**transaction, "action": _ACTIONS.get(transaction["state"], "remove")}
