"""Cancels that a driver does not carry out in time."""

from __future__ import annotations

from tests.support.in_process_node import StartNode
from tests.support.waiting import wait_until

QUICK = {"sweep": "50ms", "cancel_grace": "100ms"}


def test_a_driver_that_does_not_stop_a_cancelled_statement_is_killed(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    node.http.post(f"/api/v1/statements/{statement_id}/cancel")
    statement = node.statement(statement_id, wait_timeout="60s")
    assert statement["state"] == "cancelled"
    assert node.launcher.killed == [{"backend": "local", "name": f"headrace-{session_id}-1"}]
    assert node.session_state(session_id) == "recovering"


def test_a_driver_with_other_work_is_killed_only_by_a_forced_cancel(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.renew(streams=1)
    cancel = f"/api/v1/statements/{statement_id}/cancel"
    node.http.post(cancel)
    wait_until(lambda: node.statement(statement_id)["cancel_note"] is not None)
    statement = node.statement(statement_id)
    assert statement["state"] == "cancelling"
    assert "force" in statement["cancel_note"]
    assert node.launcher.killed == []
    node.http.post(cancel, params={"force": "true"})
    assert node.statement(statement_id, wait_timeout="60s")["state"] == "cancelled"
    assert node.launcher.killed != []
