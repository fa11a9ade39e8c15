"""The service for table transactions: lists show every transaction, and read no record."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from tests.support.in_process_node import StartNode

from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.transaction import Staged


@pytest.mark.finding("S8")
def test_lists_of_transactions_do_not_read_the_records_of_drivers(
    start_node: StartNode,
) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    statement_id = node.submit("CREATE TABLE t AS SELECT 1 AS a", session=session_id)["id"]
    driver.claim()
    transaction_id = new_id("tx")
    staged = Staged(
        kind="session", catalog="c", identity="i", target=transaction_id, record={"a": 1}
    )
    assert driver.transact(transaction_id, statement_id, TransactionState.PREPARED, staged).applied
    path = f"/api/v1/transactions/{transaction_id}"
    before = node.http.get(path).json()
    assert (before["catalog"], before["target"]) == ("c", transaction_id)
    # A list that reads the record fails now.
    with node.database.write("test") as tx:
        tx.execute(
            text("UPDATE transactions SET staged = 'no JSON' WHERE id = :id"),
            {"id": transaction_id},
        )
    assert node.http.get(path).json() == before
    page = node.http.get("/api/v1/transactions", params={"limit": 1000})
    assert before in page.json()["items"]
    orphaned = node.http.get("/api/v1/transactions", params={"orphaned": True})
    assert orphaned.status_code == 200
