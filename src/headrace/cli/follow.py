"""Waiting for a statement's end, and ending it when the user wants out."""

from __future__ import annotations

import time

from headrace.cli.interrupts import Interrupted, Interrupts
from headrace.cli.progress import REDRAW, ProgressLine
from headrace.cli.terminal import Terminal
from headrace.client.http import LONGEST_POLL, Client, Json
from headrace.errors import Conflict
from headrace.model.lifecycle import STATEMENT, StatementState


def has_ended(statement: Json) -> bool:
    return StatementState(statement["state"]) in STATEMENT.terminal


def follow(
    client: Client,
    statement: Json,
    interrupts: Interrupts,
    progress: ProgressLine,
    *,
    limit: float | None = None,
) -> Json:
    """The statement once it has ended, or as it is after `limit` seconds.

    Raises Interrupted on the first signal; the statement then runs on.
    """
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with interrupts.stoppable():
            while not has_ended(statement):
                wait = REDRAW if progress.enabled else LONGEST_POLL
                if deadline is not None:
                    wait = min(wait, deadline - time.monotonic())
                    if wait <= 0:
                        break
                progress.show(statement, _session_state(client, statement, progress))
                statement = client.statement(statement["id"], wait=wait)
    finally:
        progress.clear()
    return statement


def cancel(client: Client, statement: Json) -> Json:
    """Ask for the statement's end and wait for how it really ended: the truth wins.

    A second signal raises Interrupted.
    """
    try:
        statement = client.cancel(statement["id"])
    except Conflict:  # it has ended already, or is past the point of return
        statement = client.statement(statement["id"])
    return until_end(client, statement)


def until_end(client: Client, statement: Json) -> Json:
    """The statement once it has ended."""
    while not has_ended(statement):
        statement = client.statement(statement["id"], wait=LONGEST_POLL)
    return statement


def interrupted(client: Client, statement: Json, terminal: Terminal) -> bool:
    """What an interrupt does to a statement: cancel it and tell how it ended.

    A second one leaves at once and tells the id. Returns whether the statement has ended.
    """
    try:
        statement = cancel(client, statement)
    except Interrupted:
        tell_left(statement, terminal)
        return False
    state = StatementState(statement["state"])
    if state is StatementState.CANCELLED:
        terminal.warn(f"Cancelled {statement['id']}.")
    else:
        terminal.warn(f"{statement['id']} ended as {state} before the cancel took effect.")
    return True


def tell_left(statement: Json, terminal: Terminal) -> None:
    """How to come back to a statement that runs on."""
    terminal.warn(
        f"{statement['id']} has not ended; `headrace statement attach {statement['id']}` "
        "comes back to it."
    )


def _session_state(client: Client, statement: Json, progress: ProgressLine) -> str | None:
    if not progress.enabled or statement["state"] != StatementState.WAITING:
        return None
    return str(client.session(statement["session_id"])["state"])
