"""A driver's token is valid for its own session only, whatever its messages name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.support.executions import make_execution
from tests.support.in_process_node import InProcessNode
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.statement import Progress
from headrace.model.transaction import Staged
from headrace.store import transactions
from headrace.store.statements import statements

pytestmark = pytest.mark.finding("S2")

PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING, COMMITTED = TransactionState.COMMITTING, TransactionState.COMMITTED
CTAS = "CREATE TABLE t AS SELECT 1 AS a"
PROGRESS = Progress(**dict.fromkeys(Progress.model_fields, 1))


def make_staged(**changes: Any) -> Staged:
    fields = {
        "kind": "session",
        "catalog": "spark_catalog",
        "identity": "metastore",
        "target": new_id("tx"),
        "record": {},
    }
    return Staged(**{**fields, **changes})


def claim(node: InProcessNode, text: str = CTAS) -> tuple[str, ScriptedDriver]:
    """Start a session whose driver has claimed a statement; return both."""
    session_id, driver = node.start_session()
    statement_id: str = node.submit(text, session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    return statement_id, driver


def read_row(node: InProcessNode, statement_id: str) -> object:
    with node.database.read() as tx:
        return statements.get(tx, statement_id), transactions.live(tx, statement_id)


def assert_no_effect(
    call: Callable[[ScriptedDriver, str], Any], driver: ScriptedDriver, statement_id: str
) -> None:
    """Make a call that the node must refuse, or that must change nothing."""
    try:
        applied = call(driver, statement_id).applied
    except httpx.HTTPStatusError as error:
        refusal = error.response.status_code, error.response.json()["code"]
    else:
        refusal = (409, "lease_lost") if not applied else (200, "applied")
    assert refusal == (409, "lease_lost")


FORGED_CALLS: list[Callable[[ScriptedDriver, str], Any]] = [
    lambda driver, victim: driver.transact(new_id("tx"), victim, PREPARED, make_staged()),
    lambda driver, victim: driver.report_start(victim),
    lambda driver, victim: driver.report_progress({victim: PROGRESS}),
    lambda driver, victim: driver.report_executions({victim: make_execution()}),
    lambda driver, victim: driver.succeed(victim),
    lambda driver, victim: driver.report_end(victim, StatementState.FAILED),
    lambda driver, victim: driver.report_end(victim, StatementState.CANCELLED),
]


@pytest.mark.parametrize("call", FORGED_CALLS)
def test_a_driver_cannot_change_a_statement_of_another_session(
    node: InProcessNode, call: Callable[[ScriptedDriver, str], Any]
) -> None:
    victim, _driver = claim(node)
    _own, attacker = claim(node)
    before = read_row(node, victim)
    assert not call(attacker, victim).applied
    assert read_row(node, victim) == before


def test_a_driver_cannot_advance_a_transaction_of_another_session(node: InProcessNode) -> None:
    victim, driver = claim(node)
    own, attacker = claim(node)
    transaction_id, staged = new_id("tx"), make_staged()
    driver.transact(transaction_id, victim, PREPARED, staged)
    before = read_row(node, victim)
    for statement_id in (own, victim):
        for state in TransactionState:
            assert not attacker.transact(transaction_id, statement_id, state, staged).applied
    assert attacker.succeed(own, committed=transaction_id).applied
    assert read_row(node, victim) == before


def test_a_success_commits_only_the_table_of_its_own_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=2)
    first = node.submit(CTAS, session=session_id)["id"]
    driver.claim()
    transaction_id = new_id("tx")
    for state in (PREPARED, BEGUN, COMMITTING):
        assert driver.transact(transaction_id, first, state, make_staged(target="t")).applied
    driver.report_end(first, StatementState.FAILED)
    second = node.submit(session=session_id)["id"]
    driver.claim()
    assert driver.succeed(second, committed=transaction_id).applied
    with node.database.read() as tx:
        transaction = transactions.get(tx, transaction_id)
    assert transaction is not None
    assert transaction.state is COMMITTING


def test_a_driver_of_a_dead_session_can_do_nothing(node: InProcessNode) -> None:
    statement_id, driver = claim(node)
    transaction_id, staged = new_id("tx"), make_staged()
    driver.transact(transaction_id, statement_id, PREPARED, staged)
    node.fail_session(driver.bootstrap.session_id, driver)
    before = read_row(node, statement_id)
    for call in [
        *FORGED_CALLS,
        lambda driver, own: driver.transact(transaction_id, own, BEGUN),
        lambda driver, own: driver.recover([staged.identity]),
        lambda driver, own: driver.restore(),
        lambda driver, own: driver.poll(),
        lambda driver, own: driver.renew(),
        lambda driver, own: driver.hello(),
    ]:
        assert_no_effect(call, driver, statement_id)
    assert read_row(node, statement_id) == before


def test_a_statement_that_has_ended_cannot_begin_a_table(node: InProcessNode) -> None:
    statement_id, driver = claim(node)
    driver.succeed(statement_id)
    assert not driver.transact(new_id("tx"), statement_id, PREPARED, make_staged()).applied


def test_a_pure_query_cannot_begin_a_table(node: InProcessNode) -> None:
    statement_id, driver = claim(node, "SELECT 1 AS x")
    assert not driver.transact(new_id("tx"), statement_id, PREPARED, make_staged()).applied


@pytest.mark.parametrize(
    "change",
    [
        {"target": "`default`.`victim`"},
        {"identity": "another metastore"},
        {"location": "file:/victim"},
        {"kind": "delta"},
        {"commits_natively": True},
    ],
)
def test_a_driver_cannot_change_the_table_that_it_has_journalled(
    node: InProcessNode, change: dict[str, Any]
) -> None:
    statement_id, driver = claim(node)
    transaction_id, staged = new_id("tx"), make_staged()
    for state in (PREPARED, BEGUN):
        assert driver.transact(transaction_id, statement_id, state, staged).applied
    forged = staged.model_copy(update=change)
    assert not driver.transact(transaction_id, statement_id, COMMITTING, forged).applied
    with node.database.read() as tx:
        transaction = transactions.get(tx, transaction_id)
    assert transaction is not None
    assert (transaction.state, transaction.staged) == (BEGUN, staged)


def test_a_transaction_id_must_be_an_id(node: InProcessNode) -> None:
    statement_id, driver = claim(node)
    staged = json.loads(make_staged().model_dump_json())
    for forged in ("../x", "tx_1", "tx_" + "0" * 31 + "\0", "users; DROP TABLE t", 7, None):
        body = {"id": forged, "statement_id": statement_id, "state": "prepared", "staged": staged}
        response = driver._client.post("/transact", json=body)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
