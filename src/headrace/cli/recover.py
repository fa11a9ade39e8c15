"""`headrace recover`: resolve orphaned table transactions, and clear sinks of streams, now."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import write_items
from headrace.cli.support.readable import describe_session
from headrace.client.http import Client, Json
from headrace.errors import EXIT_FAILED, SessionFailed
from headrace.grammar.masking import MASK
from headrace.model.lifecycle import SESSION, TRANSACTION, SessionState

_FIELDS = ("id", "target", "state", "action", "statement_id", "last_error")
_DRIVER_FIELDS = ("profile", "conf", "catalog", "database", "jars", "files", "py_files")
"""Fields of a session that decide which catalogs its driver reaches, with secrets redacted."""
_CLEARED = "done"
"""State of a sink that a driver has cleared."""
_ENDED = TRANSACTION.terminal | {_CLEARED}
_POLL_SECONDS = 0.5
_PAGE = 1000
_JUDGEMENT_SECONDS = 60.0
"""Longest wait for a driver that neither renews its lease nor counts as lost."""
_RESOLVE_SECONDS = 30.0
"""Longest wait for a transaction that another driver resolves at the same time."""
_PROGRESS_SECONDS = 15.0
"""Time without progress after which the driver is considered to have resolved all that it can."""
_ACTIONS = {"committed": "published", "aborted": "removed", "committing": "publish"}


@click.command()
@click.option(
    "--dry-run", is_flag=True, help="List the orphaned transactions and what would be done."
)
@options.output
@options.quiet
@with_context
def recover(context: CommandContext, *, dry_run: bool, output_format: OutputFormat | None) -> None:
    """Publish or remove the orphaned transactions of lost drivers.

    A transaction is orphaned when its statement has ended and no driver works on it. A table whose
    publication had begun is published; everything else is removed. So are the rows that a lost
    driver has staged in the database of a stream that has ended. For this, the command starts a
    driver with the configuration of the lost one. Other drivers do the same for their own catalogs
    when they start, and again after a pause.

    The command waits until the driver of each open transaction has renewed its lease or counts as
    lost, for example after the end of a node.

    The exit code is 1 if something could not be resolved; `last_error` shows the reason.
    """
    client = context.connect()
    in_progress = _await_judgement(client)
    pending = client.recovery(retry=not dry_run)
    transactions, sinks = pending["transactions"], pending["sinks"]
    if not dry_run:
        ids = [transaction["id"] for transaction in transactions]
        for request in _session_requests(client, [*transactions, *sinks]):
            _run_driver(context, client, request, ids)
        transactions = [
            _wait_until_resolved(client, transaction["id"]) for transaction in transactions
        ]
        sinks = _read_sinks(client, sinks)
    items = [*map(_with_action, transactions), *map(_describe_sink, sinks)]
    if items or output_format is not None:
        write_items(context.terminal, items, _FIELDS, output_format)
    if not items:
        context.terminal.info("Lost drivers have left nothing.")
    for transaction in in_progress:
        context.terminal.notice(_describe_progress(client, transaction))
    if not dry_run and any(item["state"] not in _ENDED for item in items):
        raise Exit(EXIT_FAILED)


def _await_judgement(client: Client) -> list[Json]:
    """Wait until the driver of each open transaction has renewed its lease, or counts as lost.

    A node that has just started cannot know whether a driver lives. Return the transactions on
    which drivers still work.
    """
    page = client.transactions(limit=_PAGE)["items"]
    undecided = [each for each in page if each["state"] not in _ENDED and not each["orphaned"]]
    seen = {each["session_id"]: _last_renewal(client, each) for each in undecided}
    in_progress: list[Json] = []
    deadline = time.monotonic() + _JUDGEMENT_SECONDS
    while undecided and time.monotonic() < deadline:
        waiting: list[Json] = []
        for transaction in map(client.transaction, (each["id"] for each in undecided)):
            if transaction["state"] in _ENDED or transaction["orphaned"]:
                continue
            is_renewed = _last_renewal(client, transaction) != seen.get(transaction["session_id"])
            (in_progress if is_renewed else waiting).append(transaction)
        undecided = waiting
        if undecided:
            time.sleep(_POLL_SECONDS)
    return in_progress + undecided


def _last_renewal(client: Client, transaction: Json) -> str | None:
    """Return when the driver of a transaction last renewed its lease."""
    renewed_at: str | None = client.session(transaction["session_id"])["last_update_time"]
    return renewed_at


def _describe_progress(client: Client, transaction: Json) -> str:
    session = client.session(transaction["session_id"])
    pid = (session["driver"] or {}).get("pid")
    process = f"process {pid}, " if pid else ""
    return (
        f"Transaction {transaction['id']} of {transaction['target']} is in progress in the driver"
        f" of session {describe_session(session)} ({process}{session['state']})."
    )


def _session_requests(client: Client, items: Iterable[Json]) -> list[Json]:
    """Return a session request for each configuration of the sessions of these items."""
    requests: dict[str, Json] = {}
    for session_id in dict.fromkeys(item["session_id"] for item in items):
        session = client.session(session_id)
        fields = json.dumps([session[name] for name in _DRIVER_FIELDS])
        # A session that names a parallelism above 1 gets no warm driver, and only a driver that
        # starts resolves transactions.
        request = {"like": session["id"], "parallelism": 2}
        # Two sessions can differ in a secret, which no response contains.
        requests[fields + session["id"] if MASK in fields else fields] = request
    return list(requests.values())


def _run_driver(
    context: CommandContext, client: Client, request: Json, transaction_ids: Sequence[str]
) -> None:
    """Start a driver, let it resolve orphaned transactions, and end it.

    Raises SessionFailed if the driver does not become ready.
    """
    session = client.create_session(request)
    try:
        while session["state"] in SESSION.before_driver:
            time.sleep(_POLL_SECONDS)
            session = client.session(session["id"])
        if session["state"] != SessionState.RUNNING:
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
    """Wait until everything is resolved, or until no more is.

    The sinks that drivers have to clear count likewise. Some of both may belong to other catalogs
    or databases than those of the driver, or cannot be resolved.
    """
    remaining, deadline = -1, time.monotonic() + _PROGRESS_SECONDS
    while remaining and time.monotonic() < deadline:
        live = [id_ for id_ in transaction_ids if client.transaction(id_)["state"] not in _ENDED]
        count = len(live) + len(client.recovery()["sinks"])
        if count != remaining:
            remaining, deadline = count, time.monotonic() + _PROGRESS_SECONDS
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


def _read_sinks(client: Client, sinks: Sequence[Json]) -> list[Json]:
    """Return these sinks in their current state; those that are cleared are `done`."""
    pending = {sink["query_id"]: sink for sink in client.recovery()["sinks"]}
    return [pending.get(sink["query_id"], {**sink, "state": _CLEARED}) for sink in sinks]


def _describe_sink(sink: Json) -> Json:
    """Return the item of a sink: what was done with its staged rows, or what remains to be done."""
    return {
        "id": sink["query_id"],
        "target": sink["name"],
        "state": sink["state"],
        "action": "removed" if sink["state"] == _CLEARED else "remove",
        "statement_id": None,
        "last_error": sink["last_error"],
    }


def _with_action(transaction: Json) -> Json:
    """Add the field `action`: what was done with the table, or what remains to be done."""
    return {**transaction, "action": _ACTIONS.get(transaction["state"], "remove")}
