"""The calls of a driver to the node, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.scripted_driver import ScriptedDriver
from tests.support.store import set_present_since
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import LINK_PREFIX
from headrace.store.clock import clock
from headrace.store.sessions import sessions
from headrace.store.tables import sessions as sessions_table
from headrace.store.tables import statements


def test_a_driver_that_did_not_receive_its_assignment_gets_it_again(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    assignment = driver.claim()
    repeated = driver.poll().assignment
    assert repeated == assignment
    assert repeated is not None
    assert repeated.attempt == 1
    assert driver.poll(in_flight=[statement_id]).assignment is None
    assert driver.succeed(statement_id).applied
    assert driver.poll().assignment is None


def test_an_undelivered_assignment_is_repeated_before_the_next_one_is_claimed(
    node: InProcessNode,
) -> None:
    """The waiting statement cannot run beside the undelivered one, so a claim returns nothing."""
    session_id, driver = node.start_session(parallelism=2)
    node.submit("CREATE VIEW v AS SELECT 1", session=session_id)
    assignment = driver.claim()
    node.submit("CREATE VIEW w AS SELECT 2", session=session_id)

    assert driver.poll().assignment == assignment


def test_an_open_poll_returns_a_statement_that_is_submitted_meanwhile(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    with ThreadPoolExecutor(1) as pool:
        orders = pool.submit(driver.poll, wait=30)
        topic = f"session:{session_id}"
        wait_until(lambda: topic in node.database.notifications._topics, what="the poll is open")
        statement_id = node.submit(session=session_id)["id"]
        assignment = orders.result(timeout=25).assignment
    assert assignment is not None
    assert assignment.statement_id == statement_id


def test_a_poll_without_work_ends_after_its_wait(node: InProcessNode) -> None:
    _session_id, driver = node.start_session()
    orders = driver.poll(wait=0.05)
    assert (orders.assignment, orders.cancel, orders.close) == (None, [], False)
    assert driver.renew().nodes == [node.address]


def test_two_polls_at_once_claim_a_statement_once(node: InProcessNode) -> None:
    """A driver that gave up its first poll may have two of them open."""
    session_id, driver = node.start_session()
    # The first poll at a process is short.
    driver.poll()
    with ThreadPoolExecutor(2) as pool:
        polls = [pool.submit(driver.poll, wait=30) for _ in range(2)]
        statement_id = node.submit(session=session_id)["id"]
        answers = [poll.result(timeout=25).assignment for poll in polls]
    # Both polls may return the same attempt: the node cannot know which answer arrives.
    assert {assignment.statement_id for assignment in answers if assignment is not None} == {
        statement_id
    }
    assert node.statement(statement_id)["attempts"] == 1


def test_a_repeated_report_changes_nothing(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
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


def test_the_report_of_an_end_may_arrive_before_the_report_of_the_start(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    assert driver.succeed(statement_id).applied
    assert driver.report_start(statement_id).applied is False
    statement = node.statement(statement_id)
    assert statement["launched_at"] <= statement["started_at"] <= statement["ended_at"]


def test_the_token_of_a_driver_is_valid_for_its_session_only(node: InProcessNode) -> None:
    _first, driver = node.start_session()
    second, _other = node.start_session()
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
            assert expect_refusal(call).status_code == 401
    assert node.statement(statement_id)["state"] == "waiting"


def test_a_driver_cannot_report_a_statement_of_another_session(node: InProcessNode) -> None:
    _first, driver = node.start_session()
    second, other = node.start_session()
    statement_id = node.submit(session=second)["id"]
    other.claim()
    assert driver.report_start(statement_id).applied is False
    assert driver.succeed(statement_id).applied is False
    assert node.statement(statement_id)["state"] == "launched"


def test_the_token_of_a_driver_is_not_valid_for_the_users_api(start_node: StartNode) -> None:
    node = start_node(token="secret")
    node.http.headers["Authorization"] = "Bearer secret"
    _session_id, driver = node.start_session()
    response = node.http.get(
        "/api/v1/statements", headers={"Authorization": f"Bearer {driver.bootstrap.token}"}
    )
    assert response.status_code == 401


def test_a_driver_call_without_a_token_gets_401(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    response = node.http.post(f"{LINK_PREFIX}/{session_id}/1/renew", json={})
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")


def test_a_driver_that_has_lost_its_lease_cannot_change_anything(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    node.fail_session(session_id, driver)
    assert node.statement(statement_id)["state"] == "failed"
    ended = node.statement(statement_id)
    succeed = partial(driver.succeed, statement_id)
    for call in (driver.renew, driver.poll, driver.goodbye, driver.hello, succeed):
        response = expect_refusal(call)
        assert (response.status_code, response.json()["code"]) == (409, "lease_lost")
    assert node.statement(statement_id) == ended


def test_a_call_with_another_epoch_than_that_of_the_session_is_refused(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    later = driver.bootstrap.model_copy(update={"epoch": 2})
    with ScriptedDriver(later) as stranger:
        response = expect_refusal(stranger.hello)
    assert (response.status_code, response.json()["code"]) == (409, "lease_lost")
    assert node.describe_session(session_id)["epoch"] == 1


def test_a_driver_that_does_not_renew_its_lease_is_declared_lost_and_killed(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "100ms"})
    session_id, driver = node.start_session()
    statement_id = node.submit("DROP TABLE t", session=session_id)["id"]
    driver.claim()
    with node.database.write("test.expire") as tx:
        # Drivers get the time of a lease to renew at a node that has just started.
        set_present_since(tx, node.node.id, clock(-3600))
        tx.execute(update(sessions_table).values(lease_until=clock(-1)))
    statement = node.statement(statement_id, wait_timeout="30s")
    assert (statement["state"], statement["error"]["code"]) == ("failed", "driver_lost")
    assert node.launcher.killed == [{"backend": "local", "name": f"headrace-{session_id}-1"}]
    assert expect_refusal(driver.renew).status_code == 409


def test_a_driver_that_renews_its_lease_keeps_its_session(start_node: StartNode) -> None:
    # A shorter lease could end while the machine lets this process wait.
    node = start_node(lease={"duration": "3s", "sweep": "100ms"})
    session_id, driver = node.start_session()
    first_end = read_lease_end(node, session_id)
    stopping = threading.Event()

    def renew() -> None:
        while not stopping.wait(0.1):
            driver.renew()

    renewal = threading.Thread(target=renew)
    renewal.start()
    try:
        wait_until(lambda: (read_lease_end(node, session_id) - first_end).total_seconds() > 4)
        assert node.session_state(session_id) == "running"
    finally:
        stopping.set()
        renewal.join()


def test_a_statement_needs_four_write_transactions(start_node: StartNode) -> None:
    """The transactions are submit, launched, running and end; renewals come on top."""
    node = start_node()
    session_id, driver = node.start_session()
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


def test_a_short_statement_is_reported_once_with_its_run_time(node: InProcessNode) -> None:
    """The report of its end contains its run time, which saves a write transaction."""
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    with node.database.write("test.claim_earlier") as tx:
        # No start is before its claim: a fast node needs less than the run time from claim to end.
        own = statements.c.id == statement_id
        tx.execute(update(statements).where(own).values(launched_at=clock(-60)))
    driver.succeed(statement_id, ran_seconds=0.001)
    events = node.events(statement_id)
    assert [event["to"] for event in events] == ["waiting", "launched", "running", "success"]
    assert [event["from"] for event in events] == [None, "waiting", "launched", "running"]
    statement = node.statement(statement_id)
    started, ended = (datetime.fromisoformat(statement[key]) for key in ("started_at", "ended_at"))
    assert timedelta(microseconds=900) < ended - started < timedelta(milliseconds=100)
    assert datetime.fromisoformat(events[2]["at"]) < datetime.fromisoformat(events[3]["at"])


def test_a_reported_start_time_is_kept(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    started_at = node.statement(statement_id)["started_at"]
    driver.succeed(statement_id, ran_seconds=3600)
    assert node.statement(statement_id)["started_at"] == started_at
    events = node.events(statement_id)
    assert [event["to"] for event in events] == ["waiting", "launched", "running", "success"]


@pytest.mark.parametrize("reports_start", [True, False])
@pytest.mark.parametrize("age", [0.0, 0.1, 59.0, 3600.0])
def test_the_start_time_is_when_the_execution_began_and_not_when_it_was_reported(
    node: InProcessNode, age: float, *, reports_start: bool
) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    with node.database.write("test.claim_earlier") as tx:
        tx.execute(update(statements).values(launched_at=clock(-60)))
    before = datetime.now(UTC)
    if reports_start:
        driver.report_start(statement_id, ran_seconds=age)
    else:
        driver.succeed(statement_id, ran_seconds=age)
    after = datetime.now(UTC)
    shown = node.statement(statement_id)
    launched, started = (
        datetime.fromisoformat(shown[key]) for key in ("launched_at", "started_at")
    )
    ago = timedelta(seconds=age)
    assert started == launched if age > 60 else before - ago <= started <= after - ago
    running = next(event for event in node.events(statement_id) if event["to"] == "running")
    assert running["at"] == shown["started_at"]


def test_an_unknown_driver_call_gets_404(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    bearer = {"Authorization": f"Bearer {driver.bootstrap.token}"}
    response = node.http.post(f"{LINK_PREFIX}/{session_id}/1/dance", content=b"{}", headers=bearer)
    assert response.status_code == 404


def test_polls_and_reads_need_no_write_transaction(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.start_session()
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
    "body", [b"{}", b"[]", b"\xff", b'{"wait_seconds": 61}', b'{"wait_seconds": NaN}']
)
def test_an_invalid_message_is_refused(node: InProcessNode, body: bytes) -> None:
    session_id, driver = node.start_session()
    response = node.http.post(
        f"{LINK_PREFIX}/{session_id}/1/poll",
        content=body,
        headers={
            "Authorization": f"Bearer {driver.bootstrap.token}",
            "Content-Type": "application/json",
        },
    )
    assert response.status_code == 400


def expect_refusal(call: Callable[[], object]) -> httpx.Response:
    """Make a call that the node must refuse, and return the response."""
    with pytest.raises(httpx.HTTPStatusError) as caught:
        call()
    return caught.value.response


def read_lease_end(node: InProcessNode, session_id: str) -> datetime:
    with node.database.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    assert session.lease_until is not None
    return session.lease_until
