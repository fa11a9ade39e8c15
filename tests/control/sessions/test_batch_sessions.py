"""Batch statements run in a session of their own, which ends with them."""

from __future__ import annotations

from tests.support.in_process_node import ARTIFACTS_ALLOWED, InProcessNode, StartNode
from tests.support.waiting import wait_until


def test_a_batch_session_closes_when_its_statement_has_ended(node: InProcessNode) -> None:
    submitted = node.submit("SELECT 1", kind="batch")
    assert submitted["kind"] == "batch"
    session_id = submitted["session_id"]
    assert node.describe_session(session_id)["kind"] == "batch"
    driver = node.launcher.connect_driver(session_id)
    driver.hello()
    driver.claim()
    assert driver.poll(in_flight=[submitted["id"]]).close is False
    driver.succeed(submitted["id"])
    # The node repeats the order, which the driver may not have received.
    assert [driver.poll().close for _ in range(2)] == [True, True]
    assert node.session_state(session_id) == "closing"
    driver.goodbye()
    wait_until(lambda: node.session_state(session_id) == "dead")
    assert node.statement(submitted["id"])["state"] == "success"


def test_a_batch_session_waits_for_its_statement_and_refuses_a_second_one(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session(kind="batch")
    assert driver.poll().close is False
    node.submit(session=session_id, kind="batch")
    response = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 2", "session": session_id}
    )
    assert (response.status_code, response.json()["code"]) == (409, "session_ended")


def test_a_batch_statement_for_an_interactive_session_runs_in_a_copy_of_it(
    start_node: StartNode,
) -> None:
    node = start_node(conf_policy=ARTIFACTS_ALLOWED)
    conf = {"spark.sql.shuffle.partitions": "7"}
    interactive = node.session(conf=conf, database="sales", jars=["/a.jar"])
    submitted = node.submit("SELECT 1", session=interactive, kind="batch")
    batch_session = node.describe_session(submitted["session_id"])
    assert batch_session["id"] != interactive
    assert batch_session["kind"] == "batch"
    assert (batch_session["conf"], batch_session["database"], batch_session["jars"]) == (
        conf,
        "sales",
        ["/a.jar"],
    )
