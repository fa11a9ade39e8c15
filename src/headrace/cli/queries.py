"""Queries that a command itself needs, for example for the columns of a table."""

from __future__ import annotations

from typing import Any

from headrace.cli.follow import has_ended
from headrace.cli.result_printer import exit_code
from headrace.client.http import LONGEST_POLL, Client, Json
from headrace.errors import StatementFailed, TableNotFound

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
