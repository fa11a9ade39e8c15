"""Waiting for the end of a statement, and cancelling it when the user interrupts the command.

Whatever ends the wait, the command prints the id of a statement that may still run.
"""

from __future__ import annotations

import time
from typing import Any

from headrace.cli.support.interrupts import Interrupted, Interrupts
from headrace.cli.support.progress import REDRAW_SECONDS, ProgressLine
from headrace.cli.support.result_printer import exit_code
from headrace.cli.support.terminal import Terminal
from headrace.client.http import LONGEST_POLL, Client, Json
from headrace.errors import EXIT_CONNECTION, Conflict, HeadraceError, StatementFailed, TableNotFound
from headrace.model.lifecycle import STATEMENT, StatementState

_OUTAGE_SECONDS = 300.0
"""Longest outage that a command waits out while it follows a statement."""


def has_ended(statement: Json) -> bool:
    """Return whether a statement has ended, perhaps in a state that only newer nodes know."""
    return statement["state"] in STATEMENT.terminal or statement.get("ended_at") is not None


def follow_statement(
    client: Client,
    statement: Json,
    interrupts: Interrupts,
    progress: ProgressLine,
    *,
    limit: float | None = None,
) -> Json:
    """Show the progress of a statement until it has ended, or for `limit` seconds.

    Returns:
        The statement in its last known state.

    Raises:
        Interrupted: The first signal arrived. The statement continues to run.
        NodeUnreachable: No node responded for several minutes.
    """
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with interrupts.interruptible(), client.retrying(_OUTAGE_SECONDS):
            while not has_ended(statement):
                wait = REDRAW_SECONDS if progress.enabled else LONGEST_POLL
                if deadline is not None:
                    wait = min(wait, deadline - time.monotonic())
                    if wait <= 0:
                        break
                progress.draw(statement, _session_state(client, statement, progress))
                statement = client.statement(statement["id"], wait=wait)
    finally:
        progress.erase()
    return statement


def wait_for_end(client: Client, statement: Json) -> Json:
    """Wait until a statement has ended and return it."""
    while not has_ended(statement):
        statement = client.statement(statement["id"], wait=LONGEST_POLL)
    return statement


def cancel_interrupted(client: Client, statement: Json, terminal: Terminal) -> bool:
    """Cancel a statement after an interrupt, and print how it ended.

    A second signal or an outage ends the wait; the id of the statement is then printed.

    Returns:
        True if the statement has ended.
    """
    try:
        statement = _cancel_and_wait(client, statement)
    except Interrupted:
        print_attach_hint(statement, terminal)
        return False
    except HeadraceError as error:
        terminal.errors.print_error(error)
        print_attach_hint(statement, terminal)
        return False
    state = statement["state"]
    if state == StatementState.CANCELLED:
        terminal.warn(f"Cancelled {statement['id']}.")
    else:
        terminal.warn(f"{statement['id']} ended as {state} before the cancel took effect.")
    return True


def print_attach_hint(statement: Json, terminal: Terminal) -> None:
    """Print how to return to a statement that may continue to run."""
    terminal.warn(
        f"The command no longer waits for {statement['id']}. Return to the statement with: "
        f"{terminal.suggest('statement', 'attach', statement['id'])}"
    )


def is_outage(error: HeadraceError) -> bool:
    """Return whether an error says that no node or store responds, and nothing of a statement."""
    return error.exit_code == EXIT_CONNECTION


def _cancel_and_wait(client: Client, statement: Json) -> Json:
    try:
        statement = client.cancel(statement["id"])
    except Conflict:
        # The statement has already ended, or it can no longer be cancelled.
        statement = client.statement(statement["id"])
    return wait_for_end(client, statement)


def _session_state(client: Client, statement: Json, progress: ProgressLine) -> str | None:
    if not progress.enabled or statement["state"] != StatementState.WAITING:
        return None
    return str(client.session(statement["session_id"])["state"])


_MAX_ROWS = 5000


def run_query(
    client: Client, session: str | None, text: str, fields: dict[str, Any] | None = None
) -> Json:
    """Run a statement of the command itself and return it when it has succeeded.

    Args:
        session: Id or name of the session; None for the pool session.
        fields: Additional fields of the submit.

    Raises:
        TableNotFound: The statement names a table that does not exist.
        StatementFailed: The statement did not succeed.
    """
    body = {"statement": text, "wait_timeout": f"{LONGEST_POLL:g}s", "row_limit": _MAX_ROWS}
    if session is not None:
        body["session"] = session
    statement = client.submit(body | (fields or {}))
    while not has_ended(statement):
        statement = client.statement(statement["id"], wait=LONGEST_POLL)
    if exit_code(statement):
        failure = statement.get("error") or {}
        is_missing = failure.get("condition") == TableNotFound.condition
        raise (TableNotFound if is_missing else StatementFailed)(failure.get("message"))
    return statement


def fetch_rows(
    client: Client, session: str | None, text: str, fields: dict[str, Any] | None = None
) -> list[list[Any]]:
    """Run a statement of the command itself and return its rows, at most some thousand.

    Raises the errors of `run_query`.
    """
    statement = run_query(client, session, text, fields)
    if statement.get("rows") is not None:
        return list(statement["rows"])
    return list(client.rows(statement["id"])["rows"]) if statement["result"] else []
