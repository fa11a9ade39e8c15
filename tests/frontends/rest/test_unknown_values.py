"""Records with values that this version does not know: a newer node shares the store."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from tests.support.in_process_node import InProcessNode, StartNode

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
