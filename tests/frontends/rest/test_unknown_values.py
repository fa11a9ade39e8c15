"""Records with values that this version does not know: a newer node shares the store."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.cli.shell.session import has_session_ended
from headrace.cli.support.follow import has_ended
from headrace.cli.support.progress import describe_progress
from headrace.cli.support.result_printer import exit_code

_VALUES = {
    "sessions": {"kind": "notebook"},
    "statements": {"kind": "notebook", "cancel_reason": "moved"},
    "results": {"disposition": "tape"},
    "events": {"entity": "workspace"},
}


@pytest.fixture
def own_node(start_node: StartNode) -> InProcessNode:
    """Start a node for one test, which changes all rows of its store."""
    return start_node()


@pytest.fixture
def statement(own_node: InProcessNode) -> str:
    statement_id = str(own_node.submit("SHOW STREAMS")["id"])
    with own_node.database.write("test") as tx:
        for table, values in _VALUES.items():
            columns = ", ".join(f"{column} = '{value}'" for column, value in values.items())
            tx.execute(text(f"UPDATE {table} SET {columns}"))
    return statement_id


def test_records_with_unknown_values_are_shown(own_node: InProcessNode, statement: str) -> None:
    shown = own_node.http.get(f"/api/v1/statements/{statement}").json()
    assert (shown["kind"], shown["cancel_reason"]) == ("notebook", "moved")
    assert (shown["state"], shown["result"]["disposition"]) == ("success", "tape")
    [listed] = own_node.http.get("/api/v1/statements").json()["items"]
    assert listed == shown
    session = own_node.http.get(f"/api/v1/sessions/{shown['session_id']}").json()
    assert session["kind"] == "notebook"
    page = own_node.http.get("/api/v1/events").json()
    assert {event["entity"] for event in page["items"]} == {"workspace"}


def test_a_result_of_an_unknown_kind_is_left_to_another_node(
    own_node: InProcessNode, statement: str
) -> None:
    response = own_node.http.get(f"/api/v1/statements/{statement}/result")
    assert (response.status_code, response.json()["code"]) == (503, "results_unavailable")
    assert "'tape'" in response.json()["detail"]


@pytest.mark.parametrize("ended", [False, True])
def test_every_reader_shows_an_unknown_state(own_node: InProcessNode, *, ended: bool) -> None:
    statement_id = str(own_node.submit("SHOW STREAMS")["id"])
    end = "ended_at" if ended else "NULL"
    with own_node.database.write("test") as tx:
        # A newer node has replaced the constraint.
        tx.execute(text("PRAGMA ignore_check_constraints = ON"))
        tx.execute(text(f"UPDATE statements SET state = 'archived', ended_at = {end}"))
        tx.execute(text("PRAGMA ignore_check_constraints = OFF"))
    shown = own_node.http.get(f"/api/v1/statements/{statement_id}").json()
    [listed] = own_node.http.get("/api/v1/statements").json()["items"]
    query = own_node.http.get(f"/_plugins/_async_query/{statement_id}").json()
    assert (shown["state"], listed["state"], query["status"]) == ("archived",) * 3
    assert (has_ended(shown), exit_code(shown)) == (ended, 1)
    assert describe_progress(shown, "archived", 1.0).startswith("archived")
    assert has_session_ended({"state": "archived"}) is False
