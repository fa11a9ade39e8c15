"""Two-phase table transactions: the journal of the driver, cancels, recovery and the API."""

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
_STEPS = [TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING]


def new_transaction() -> tuple[str, Staged]:
    """Return the id and the staged table of a new transaction.

    The target is unique because the tests share a node.
    """
    transaction_id = new_id("tx")
    catalog = "spark_catalog"
    return transaction_id, Staged(
        kind="session", catalog=catalog, identity="metastore", target=transaction_id, record={}
    )


def start_ctas(
    node: InProcessNode, state: TransactionState, transaction_id: str, staged: Staged
) -> tuple[str, str, ScriptedDriver]:
    """Start a CTAS, bring its transaction to a state; return session, statement and driver."""
    session_id, driver = node.start_session()
    statement_id = node.submit(CTAS, session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    for step in _STEPS[: _STEPS.index(state) + 1]:
        assert driver.transact(transaction_id, statement_id, step, staged).applied
    return session_id, statement_id, driver


def test_a_table_is_committed_when_its_statement_succeeds(node: InProcessNode) -> None:
    transaction_id, staged = new_transaction()
    _session, statement_id, driver = start_ctas(
        node, TransactionState.COMMITTING, transaction_id, staged
    )
    assert driver.succeed(statement_id, committed=transaction_id, atomic=True, note="seen").applied
    statement = node.statement(statement_id)
    assert (statement["state"], statement["atomic"]) == ("success", True)
    assert statement["note"] == "seen"
    states = [event["to"] for event in node.events(transaction_id)]
    assert states == ["prepared", "begun", "committing", "committed"]


def test_a_cancel_is_refused_while_the_table_is_committed(node: InProcessNode) -> None:
    transaction_id, staged = new_transaction()
    _session, statement_id, driver = start_ctas(
        node, TransactionState.COMMITTING, transaction_id, staged
    )
    response = node.http.post(f"/api/v1/statements/{statement_id}/cancel")
    assert response.status_code == 409
    assert response.json()["code"] == "committing"
    assert driver.poll(in_flight=[statement_id]).cancel == []
    assert driver.succeed(statement_id, committed=transaction_id).applied


def test_a_cancel_before_the_commit_prevents_it(node: InProcessNode) -> None:
    transaction_id, staged = new_transaction()
    _session, statement_id, driver = start_ctas(
        node, TransactionState.BEGUN, transaction_id, staged
    )
    assert node.http.post(f"/api/v1/statements/{statement_id}/cancel").status_code == 202
    answer = driver.transact(transaction_id, statement_id, TransactionState.COMMITTING, staged)
    assert (answer.applied, answer.busy) == (False, False)
    for step in (TransactionState.ABORTING, TransactionState.ABORTED):
        assert driver.transact(transaction_id, statement_id, step).applied
    assert driver.report_end(statement_id, StatementState.CANCELLED).applied
    assert node.statement(statement_id)["state"] == "cancelled"


def test_one_transaction_at_a_time_commits_a_table_name(node: InProcessNode) -> None:
    transaction_id, staged = new_transaction()
    _session, first, driver = start_ctas(node, TransactionState.COMMITTING, transaction_id, staged)
    other_session, other = node.start_session()
    second = node.submit(CTAS, session=other_session)["id"]
    other.claim()
    second_transaction = new_id("tx")
    for step in _STEPS[:2]:
        assert other.transact(second_transaction, second, step, staged).applied
    busy = other.transact(second_transaction, second, TransactionState.COMMITTING, staged)
    assert (busy.applied, busy.busy) == (False, True)
    assert node.statement(first)["waiting_for"] is None
    reason = node.statement(second)["waiting_for"]
    assert (reason["code"], reason["statement_id"]) == ("transaction", first)
    assert f"after the statement {first}" in reason["text"]
    assert driver.succeed(first, committed=transaction_id).applied
    assert other.transact(second_transaction, second, TransactionState.COMMITTING, staged).applied


@pytest.mark.parametrize("state", _STEPS)
def test_the_next_driver_of_the_session_continues_the_transaction(
    start_node: StartNode, state: TransactionState
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    transaction_id, staged = new_transaction()
    session_id, statement_id, _driver = start_ctas(node, state, transaction_id, staged)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    with node.launcher.connect_driver(session_id, launch=2) as second:
        second.hello()
        assignment = second.claim()
        assert (assignment.statement_id, assignment.attempt) == (statement_id, 2)
        assert assignment.transaction == JournalEntry(
            id=transaction_id, state=state, staged=staged, staged_epoch=1
        )
        # The node repeats an answer that the driver did not receive.
        assert second.poll().assignment == assignment
        if state is not TransactionState.COMMITTING:
            assert second.transact(transaction_id, statement_id, TransactionState.ABORTING).applied
            assert second.transact(transaction_id, statement_id, TransactionState.ABORTED).applied
            return
        assert node.http.post(f"/api/v1/statements/{statement_id}/cancel").status_code == 409
        assert second.succeed(statement_id, committed=transaction_id, atomic=True).applied
        assert node.statement(statement_id)["state"] == "success"


def test_a_prepared_transaction_without_a_staged_table_is_refused(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(CTAS, session=session_id)["id"]
    driver.claim()
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        driver.transact(new_id("tx"), statement_id, TransactionState.PREPARED)


def test_transactions_can_be_read_and_listed(node: InProcessNode) -> None:
    transaction_id, staged = new_transaction()
    session_id, statement_id, driver = start_ctas(
        node, TransactionState.BEGUN, transaction_id, staged
    )
    transaction = node.http.get(f"/api/v1/transactions/{transaction_id}").json()
    assert {
        name: transaction[name]
        for name in ("id", "statement_id", "session_id", "state", "orphaned")
    } == {
        "id": transaction_id,
        "statement_id": statement_id,
        "session_id": session_id,
        "state": "begun",
        "orphaned": False,
    }
    assert transaction["target"] == staged.target
    page = node.http.get("/api/v1/transactions", params={"limit": 1}).json()
    assert [transaction["id"] for transaction in page["items"]] == [transaction_id]
    older = node.http.get(
        "/api/v1/transactions", params={"before": page["next"] or transaction_id}
    ).json()
    assert transaction_id not in [transaction["id"] for transaction in older["items"]]
    driver.report_spark_failure()
    missing = node.http.get("/api/v1/transactions/tx_0")
    assert (missing.status_code, missing.json()["code"]) == (404, "transaction_not_found")


def test_a_driver_of_the_same_catalog_recovers_an_orphaned_transaction_once(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 1})
    transaction_id, staged = new_transaction()
    session_id, statement_id, _driver = start_ctas(
        node, TransactionState.BEGUN, transaction_id, staged
    )
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    wait_until(lambda: node.statement(statement_id)["state"] == "failed", what="it has failed")
    [orphan] = node.http.get("/api/v1/transactions", params={"orphaned": True}).json()["items"]
    assert (orphan["id"], orphan["orphaned"]) == (transaction_id, True)
    _other_session, other = node.start_session()
    assert other.recover(["elsewhere"]) == []
    [recovered] = other.recover([staged.identity])
    assert (recovered.id, recovered.statement_id, recovered.staged) == (
        transaction_id,
        statement_id,
        staged,
    )
    assert other.recover([staged.identity]) == []
    for step in (TransactionState.ABORTING, TransactionState.ABORTED):
        assert other.transact(transaction_id, statement_id, step).applied
    assert node.http.get("/api/v1/transactions", params={"orphaned": True}).json()["items"] == []
