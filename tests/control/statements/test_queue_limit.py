"""The limit on the number of statements that wait in one session."""

from __future__ import annotations

import pytest
from tests.support.in_process_node import StartNode


@pytest.mark.finding("B11")
def test_a_submit_to_a_session_with_a_full_queue_is_refused(start_node: StartNode) -> None:
    node = start_node(statements={"max_waiting": 2})
    session_id, driver = node.start_session()
    first = node.submit("SELECT 1", session=session_id)
    driver.claim()
    waiting = [node.submit(f"SELECT {number}", session=session_id) for number in range(2)]

    refused = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 3", "session": session_id}
    )
    assert refused.status_code == 429
    assert refused.json()["code"] == "queue_full"
    assert "2 statements wait" in refused.json()["detail"]
    assert refused.json()["hint"]
    assert node.statement(first["id"])["state"] == "launched"

    # The end of any waiting statement makes room, also behind the oldest one.
    node.http.post(f"/api/v1/statements/{waiting[1]['id']}/cancel")
    node.submit("SELECT 4", session=session_id)
    # Other sessions have queues of their own.
    node.submit("SELECT 5")
