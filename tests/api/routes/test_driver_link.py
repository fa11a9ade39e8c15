"""The link between a driver and the node, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import LINK_PREFIX
from headrace.store import sessions


def test_a_statement_whose_answer_was_lost_is_handed_out_again(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    lost = driver.claim()
    again = driver.poll().assignment
    assert again == lost
    assert again is not None
    assert again.attempt == 1
    assert driver.poll(in_flight=[statement_id]).assignment is None
    assert driver.succeed(statement_id).applied
    assert driver.poll().assignment is None


def test_an_open_poll_gets_what_is_submitted_meanwhile(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    with ThreadPoolExecutor(1) as pool:
        orders = pool.submit(driver.poll, wait=30)
        topic = f"session:{session_id}"
        wait_until(lambda: topic in node.database.notifications._topics, what="the poll is open")
        statement_id = node.submit(session=session_id)["id"]
        assignment = orders.result(timeout=10).assignment
    assert assignment is not None
    assert assignment.statement_id == statement_id


def test_a_poll_with_nothing_to_do_ends_after_its_time(node: InProcessNode) -> None:
    _session_id, driver = node.driven_session()
    orders = driver.poll(wait=0.05)
    assert (orders.assignment, orders.cancel, orders.close) == (None, [], False)
    assert driver.renew().nodes == [node.address]


def test_two_polls_at_once_do_not_share_a_statement(node: InProcessNode) -> None:
    """A driver that thought its first poll lost may have both open."""
    session_id, driver = node.driven_session()
    with ThreadPoolExecutor(2) as pool:
        polls = [pool.submit(driver.poll, wait=0.5) for _ in range(2)]
        statement_id = node.submit(session=session_id)["id"]
        works = [one.result(timeout=10).assignment for one in polls]
    # Both may learn of it, for the node cannot know which answer arrives; it is the same attempt.
    assert {assignment.statement_id for assignment in works if assignment is not None} == {
        statement_id
    }
    assert node.statement(statement_id)["attempts"] == 1


def test_a_repeated_report_changes_nothing(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    assert driver.succeed(statement_id).applied is True
    ended = node.statement(statement_id)
    assert driver.succeed(statement_id).applied is False
    failure = Failure(code="x", message="x")
    assert driver.report_end(statement_id, StatementState.FAILED, failure=failure).applied is False
    assert driver.report_start(statement_id).applied is False
    assert node.statement(statement_id) == ended
    assert driver.hello().applied is False


def test_a_report_of_a_short_statement_may_overtake_that_of_its_start(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    assert driver.succeed(statement_id).applied
    assert driver.report_start(statement_id).applied is False
    statement = node.statement(statement_id)
    assert statement["launched_at"] <= statement["started_at"] <= statement["ended_at"]


def test_a_token_is_good_for_its_session_alone(node: InProcessNode) -> None:
    _first, driver = node.driven_session()
    second, _other = node.driven_session()
    statement_id = node.submit(session=second)["id"]
    request = node.launcher.wait_for_request(second)
    token = driver.bootstrap.token
    with ScriptedDriver(request.bootstrap, token=token) as stranger:
        for call in (
            stranger.hello,
            stranger.poll,
            stranger.renew,
            stranger.goodbye,
            lambda: stranger.report_start(statement_id),
            lambda: stranger.succeed(statement_id),
        ):
            assert refused(call).status_code == 401
    assert node.statement(statement_id)["state"] == "waiting"


def test_a_driver_cannot_report_another_sessions_statement(node: InProcessNode) -> None:
    _first, driver = node.driven_session()
    second, other = node.driven_session()
    statement_id = node.submit(session=second)["id"]
    other.claim()
    assert driver.report_start(statement_id).applied is False
    assert driver.succeed(statement_id).applied is False
    assert node.statement(statement_id)["state"] == "launched"


def test_a_driver_cannot_use_the_api_of_users_where_a_token_is_set(start_node: StartNode) -> None:
    node = start_node(token="secret")
    node.http.headers["Authorization"] = "Bearer secret"
    _session_id, driver = node.driven_session()
    response = node.http.get(
        "/api/v1/statements", headers={"Authorization": f"Bearer {driver.bootstrap.token}"}
    )
    assert response.status_code == 401


def test_without_a_token_the_link_is_shut(node: InProcessNode) -> None:
    session_id, _driver = node.driven_session()
    response = node.http.post(f"{LINK_PREFIX}/{session_id}/1/renew", json={})
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")


def test_who_has_lost_the_lease_changes_nothing(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_spark_failure()
    assert node.statement(statement_id)["state"] == "failed"
    ended = node.statement(statement_id)
    succeed = partial(driver.succeed, statement_id)
    for call in (driver.renew, driver.poll, driver.goodbye, driver.hello, succeed):
        response = refused(call)
        assert (response.status_code, response.json()["code"]) == (409, "lease_lost")
    assert node.statement(statement_id) == ended


def test_an_epoch_that_is_not_the_sessions_is_lost(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    later = driver.bootstrap.model_copy(update={"epoch": 2})
    with ScriptedDriver(later) as stranger:
        response = refused(stranger.hello)
    assert (response.status_code, response.json()["code"]) == (409, "lease_lost")
    assert node.http.get(f"/api/v1/sessions/{session_id}").json()["epoch"] == 1


def test_a_driver_that_does_not_renew_is_lost(start_node: StartNode) -> None:
    node = start_node(lease={"duration": "1s", "sweep": "100ms"})
    session_id, driver = node.driven_session()
    statement_id = node.submit("SHOW TABLES", session=session_id)["id"]
    driver.claim()
    statement = node.statement(statement_id, wait_timeout="20s")
    assert (statement["state"], statement["error"]["code"]) == ("failed", "driver_lost")
    assert node.launcher.killed == [{"backend": "local", "name": f"headrace-{session_id}-1"}]
    assert refused(driver.renew).status_code == 409


def test_a_driver_that_renews_keeps_its_session(start_node: StartNode) -> None:
    node = start_node(lease={"duration": "1s", "sweep": "100ms"})
    session_id, driver = node.driven_session()
    first = lease_of(node, session_id)
    stopping = threading.Event()

    def renew() -> None:
        while not stopping.wait(0.1):
            driver.renew()

    renewal = threading.Thread(target=renew)
    renewal.start()
    try:
        wait_until(lambda: (lease_of(node, session_id) - first).total_seconds() > 2)
        assert node.http.get(f"/api/v1/sessions/{session_id}").json()["state"] == "running"
    finally:
        stopping.set()
        renewal.join()


def test_a_statements_life_is_four_write_transactions(start_node: StartNode) -> None:
    """DESIGN 12, Budget: submit, launched, running, end; renewals are on top."""
    node = start_node()
    session_id, driver = node.driven_session()
    node.node._tasks.stop()

    before = node.database.write_count
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    driver.succeed(statement_id)
    assert node.statement(statement_id)["state"] == "success"
    assert node.http.get(f"/api/v1/statements/{statement_id}/result").status_code == 200
    assert driver.poll().assignment is None
    assert node.database.write_count - before == 4

    driver.renew()
    assert node.database.write_count - before == 5


def test_a_brief_statement_is_told_of_once(node: InProcessNode) -> None:
    """Its end says how long it ran, in three write transactions instead of four."""
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.succeed(statement_id, ran_seconds=0.001)
    told = node.http.get("/api/v1/events", params={"entity_id": statement_id}).json()["items"]
    assert [one["to"] for one in told] == ["waiting", "launched", "running", "success"]
    assert [one["from"] for one in told] == [None, "waiting", "launched", "running"]
    statement = node.statement(statement_id)
    began, ended = (datetime.fromisoformat(statement[key]) for key in ("started_at", "ended_at"))
    assert timedelta(microseconds=900) < ended - began < timedelta(milliseconds=100)
    assert datetime.fromisoformat(told[2]["at"]) < datetime.fromisoformat(told[3]["at"])


def test_what_was_told_of_as_begun_began_then(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    began = node.statement(statement_id)["started_at"]
    driver.succeed(statement_id, ran_seconds=3600)
    assert node.statement(statement_id)["started_at"] == began
    told = node.http.get("/api/v1/events", params={"entity_id": statement_id}).json()["items"]
    assert [one["to"] for one in told] == ["waiting", "launched", "running", "success"]


def test_a_call_that_there_is_not_is_not_found(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    bearer = {"Authorization": f"Bearer {driver.bootstrap.token}"}
    response = node.http.post(f"{LINK_PREFIX}/{session_id}/1/dance", content=b"{}", headers=bearer)
    assert response.status_code == 404


def test_polls_and_looks_write_nothing(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    node.node._tasks.stop()
    before = node.database.write_count
    for _ in range(3):
        driver.poll(in_flight=[statement_id])
        node.statement(statement_id)
        node.http.get("/api/v1/statements")
        node.http.get("/api/v1/sessions")
        node.http.get("/api/v1/events")
        node.http.get("/ready")
    assert node.database.write_count == before


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"\xff", b'{"wait_seconds": 61}', b'{"wait_seconds": 1, "more": 1}']
)
def test_a_message_that_is_not_understood_is_refused(node: InProcessNode, body: bytes) -> None:
    session_id, driver = node.driven_session()
    response = node.http.post(
        f"{LINK_PREFIX}/{session_id}/1/poll",
        content=body,
        headers={
            "Authorization": f"Bearer {driver.bootstrap.token}",
            "Content-Type": "application/json",
        },
    )
    assert response.status_code == 400


def refused(call: Callable[[], object]) -> httpx.Response:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        call()
    return caught.value.response


def lease_of(node: InProcessNode, session_id: str) -> object:
    with node.database.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    assert session.lease_until is not None
    return session.lease_until
