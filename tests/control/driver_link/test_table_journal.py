"""A table in two phases, by the API and the link: what is shown, and what a cancel still does."""

from __future__ import annotations

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.messages import JournalEntry
from headrace.model.transaction import Staged

CTAS = "CREATE TABLE t AS SELECT 1 AS a"
_ON_THE_WAY = [TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING]


def table() -> tuple[str, Staged]:
    """A transaction of a table of its own: the node is that of other tests too."""
    made = new_id("tx")
    catalog = "spark_catalog"
    return made, Staged(kind="session", catalog=catalog, identity="here", target=made, record={})


def creating(
    node: InProcessNode, state: TransactionState, made: str, staged: Staged
) -> tuple[str, str, ScriptedDriver]:
    """A session and a CTAS in its driver's hands, whose transaction has come this far."""
    session_id, driver = node.driven_session()
    statement_id = node.submit(CTAS, session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    for step in _ON_THE_WAY[: _ON_THE_WAY.index(state) + 1]:
        assert driver.transact(made, statement_id, step, staged).applied
    return session_id, statement_id, driver


def test_a_table_is_committed_with_its_statement(node: InProcessNode) -> None:
    made, staged = table()
    _session, statement_id, driver = creating(node, TransactionState.COMMITTING, made, staged)
    assert driver.succeed(statement_id, committed=made, atomic=True, note="seen").applied
    shown = node.statement(statement_id)
    assert (shown["state"], shown["atomic"], shown["note"]) == ("success", True, "seen")
    page = node.http.get("/api/v1/events", params={"entity_id": made}).json()
    assert [one["to"] for one in page["items"]] == ["prepared", "begun", "committing", "committed"]


def test_a_cancel_is_refused_once_the_table_is_published(node: InProcessNode) -> None:
    made, staged = table()
    _session, statement_id, driver = creating(node, TransactionState.COMMITTING, made, staged)
    refused = node.http.post(f"/api/v1/statements/{statement_id}/cancel")
    assert refused.status_code == 409
    assert refused.json()["code"] == "committing"
    assert driver.poll(in_flight=[statement_id]).cancel == []
    assert driver.succeed(statement_id, committed=made).applied


def test_a_cancel_before_that_keeps_it_from_being_published(node: InProcessNode) -> None:
    made, staged = table()
    _session, statement_id, driver = creating(node, TransactionState.BEGUN, made, staged)
    assert node.http.post(f"/api/v1/statements/{statement_id}/cancel").status_code == 202
    answer = driver.transact(made, statement_id, TransactionState.COMMITTING, staged)
    assert (answer.applied, answer.busy) == (False, False)
    for step in (TransactionState.ABORTING, TransactionState.ABORTED):
        assert driver.transact(made, statement_id, step).applied
    assert driver.report_end(statement_id, StatementState.CANCELLED).applied
    assert node.statement(statement_id)["state"] == "cancelled"


def test_two_do_not_publish_one_name_at_once(node: InProcessNode) -> None:
    made, staged = table()
    _session, first, driver = creating(node, TransactionState.COMMITTING, made, staged)
    other_session, other = node.driven_session()
    second = node.submit(CTAS, session=other_session)["id"]
    other.claim()
    late = new_id("tx")
    for step in _ON_THE_WAY[:2]:
        assert other.transact(late, second, step, staged).applied
    busy = other.transact(late, second, TransactionState.COMMITTING, staged)
    assert (busy.applied, busy.busy) == (False, True)
    assert driver.succeed(first, committed=made).applied
    assert other.transact(late, second, TransactionState.COMMITTING, staged).applied


@pytest.mark.parametrize("state", _ON_THE_WAY)
def test_the_next_driver_is_told_of_what_is_left(
    start_node: StartNode, state: TransactionState
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    made, staged = table()
    session_id, statement_id, _driver = creating(node, state, made, staged)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    with node.launcher.connect_driver(session_id, launch=2) as second:
        second.hello()
        assignment = second.claim()
        assert (assignment.statement_id, assignment.attempt) == (statement_id, 2)
        assert assignment.transaction == JournalEntry(id=made, state=state, staged=staged)
        # An answer that was lost on its way is given again.
        assert second.poll().assignment == assignment
        end = TransactionState.COMMITTING
        if state is not end:
            assert second.transact(made, statement_id, TransactionState.ABORTING).applied
            assert second.transact(made, statement_id, TransactionState.ABORTED).applied
            return
        assert node.http.post(f"/api/v1/statements/{statement_id}/cancel").status_code == 409
        assert second.succeed(statement_id, committed=made, atomic=True).applied
        assert node.statement(statement_id)["state"] == "success"


def test_what_is_not_said_in_full_is_refused(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(CTAS, session=session_id)["id"]
    driver.claim()
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        driver.transact(new_id("tx"), statement_id, TransactionState.PREPARED)


def test_transactions_are_shown(node: InProcessNode) -> None:
    made, staged = table()
    session_id, statement_id, driver = creating(node, TransactionState.BEGUN, made, staged)
    shown = node.http.get(f"/api/v1/transactions/{made}").json()
    assert {
        name: shown[name] for name in ("id", "statement_id", "session_id", "state", "orphaned")
    } == {
        "id": made,
        "statement_id": statement_id,
        "session_id": session_id,
        "state": "begun",
        "orphaned": False,
    }
    assert shown["target"] == staged.target
    page = node.http.get("/api/v1/transactions", params={"limit": 1}).json()
    assert [one["id"] for one in page["items"]] == [made]
    older = node.http.get("/api/v1/transactions", params={"before": page["next"] or made}).json()
    assert made not in [one["id"] for one in older["items"]]
    driver.report_spark_failure()
    missing = node.http.get("/api/v1/transactions/tx_0")
    assert (missing.status_code, missing.json()["code"]) == (404, "transaction_not_found")


def test_what_is_left_is_taken_over_by_the_next_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 1})
    made, staged = table()
    session_id, statement_id, _driver = creating(node, TransactionState.BEGUN, made, staged)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    wait_until(lambda: node.statement(statement_id)["state"] == "failed", what="it has failed")
    [orphan] = node.http.get("/api/v1/transactions", params={"orphaned": True}).json()["items"]
    assert (orphan["id"], orphan["orphaned"]) == (made, True)
    _other_session, other = node.driven_session()
    assert other.recover(["elsewhere"]) == []
    [taken] = other.recover([staged.identity])
    assert (taken.id, taken.statement_id, taken.staged) == (made, statement_id, staged)
    assert other.recover([staged.identity]) == []
    for step in (TransactionState.ABORTING, TransactionState.ABORTED):
        assert other.transact(made, statement_id, step).applied
    assert node.http.get("/api/v1/transactions", params={"orphaned": True}).json()["items"] == []
