"""Every call of a driver that no longer owns its session is refused, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.control.driver_link import table_journal
from headrace.errors import LeaseLost
from headrace.frontends.driver_link import CALLS
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.messages import LINK_PREFIX, Poll
from headrace.model.session import DriverLease
from headrace.model.transaction import Staged, TableWrite

pytestmark = pytest.mark.finding("S2")

PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
INSERT = "INSERT INTO t SELECT 1"
WITHOUT_LEASE = {"advanced"}
"""Calls whose answer only says that nothing was changed."""


def start_insert(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    """Start an INSERT that holds its write lock; return the statement and the driver."""
    session_id, driver = node.start_session()
    statement_id = str(node.submit(INSERT, session=session_id)["id"])
    driver.claim()
    driver.report_start(statement_id)
    write = TableWrite(location=f"file:/{statement_id}", table="`d`.`t`", overwrite=False)
    assert driver.begin_write(statement_id, [write]).granted
    return statement_id, driver


def supersede(node: InProcessNode, driver: ScriptedDriver) -> None:
    """Let a takeover start the next driver of a session, which has not said hello yet."""
    node.launcher.report_exit(driver.bootstrap.session_id, "it was killed")
    node.submit(session=driver.bootstrap.session_id)
    node.launcher.wait_for_request(driver.bootstrap.session_id, launch=2)


def end_session(node: InProcessNode, driver: ScriptedDriver) -> None:
    node.fail_session(driver.bootstrap.session_id, driver)


def end_session_in_store(node: InProcessNode, driver: ScriptedDriver) -> None:
    """Let a session end in the epoch of its driver."""
    change_session(node, driver.bootstrap.session_id, "state = 'dead', ended_at = created_at")


def change_session(node: InProcessNode, session_id: str, change: str) -> None:
    with node.database.write("test") as tx:
        tx.connection.exec_driver_sql(f"UPDATE sessions SET {change} WHERE id = '{session_id}'")


def make_message(call: str, statement_id: str) -> dict[str, Any]:
    staged = Staged(kind="session", catalog="c", identity="i", target=new_id("tx"), record={})
    result = json.loads(inline_result([("n", "integer")], [[1]]).model_dump_json())
    messages: dict[str, dict[str, Any]] = {
        "hello": {
            "pid": 1,
            "spark_version": "4",
            "application_id": "a",
            "ui_url": None,
            "keeps_tables": True,
        },
        "poll": {"wait_seconds": 0},
        "renew": {"streams": 0},
        "started": {"statement_id": statement_id},
        "advanced": {"progress": {}},
        "executed": {"executions": {}},
        "ended": {"statement_id": statement_id, "state": "success", "result": result},
        "transact": {
            "id": new_id("tx"),
            "statement_id": statement_id,
            "state": "prepared",
            "staged": json.loads(staged.model_dump_json()),
        },
        "recover": {"identities": ["metastore"]},
        "begin_write": {
            "statement_id": statement_id,
            "identity": "metastore",
            "writes": [{"location": "file:/x", "table": None, "overwrite": True}],
        },
        "announce_writes": {
            "query_id": new_id("sq"),
            "identity": "metastore",
            "writes": [{"location": "file:/x", "table": None, "overwrite": True}],
        },
        "clear_staging": {"identities": ["metastore"]},
        "begin_generation": {"statement_id": statement_id},
        "carry_out": {"identities": ["metastore"]},
        "open_connection": {"statement_id": statement_id},
        "find_streams": {"names": ["s"]},
        "read_system_tables": {"tables": ["runs"]},
        "find_secrets": {"names": ["s"]},
        "find_marked": {"query_id": new_id("sq"), "marked_id": new_id("sq")},
    }
    return messages.get(call, {})


@pytest.mark.parametrize("lose", [supersede, end_session, end_session_in_store])
def test_every_call_of_a_driver_without_its_session_is_refused(
    node: InProcessNode, lose: Callable[[InProcessNode, ScriptedDriver], None]
) -> None:
    statement_id, driver = start_insert(node)
    lose(node, driver)
    session_id = driver.bootstrap.session_id
    state = node.session_state(session_id)
    before = node.statement(statement_id)
    for call in CALLS:
        response = driver._client.post(f"/{call}", json=make_message(call, statement_id))
        if call in WITHOUT_LEASE:
            assert response.json() == {"applied": False}, call
        else:
            assert (response.status_code, response.json()["code"]) == (409, "lease_lost"), call
    assert node.session_state(session_id) == state
    assert node.statement(statement_id) == before


def test_an_epoch_that_never_was_is_superseded(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    headers = {"Authorization": f"Bearer {driver.bootstrap.token}"}
    for path in (f"{session_id}/99", f"{new_id('se')}/1"):
        response = node.http.post(f"{LINK_PREFIX}/{path}/poll", content=b"{}", headers=headers)
        assert (response.status_code, response.json()["code"]) == (409, "lease_lost")


def test_a_token_opens_its_own_session_only(node: InProcessNode) -> None:
    _own, driver = node.start_session()
    other, _driver = node.start_session()
    headers = {"Authorization": f"Bearer {driver.bootstrap.token}"}
    response = node.http.post(f"{LINK_PREFIX}/{other}/1/poll", content=b"{}", headers=headers)
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")


def test_a_session_that_is_deleted_has_no_driver(node: InProcessNode) -> None:
    with pytest.raises(LeaseLost):
        node.node.driver_link.poll(DriverLease(new_id("se"), 1), Poll(wait_seconds=0))


def test_a_superseded_driver_clears_no_orphaned_write(node: InProcessNode) -> None:
    _statement_id, driver = start_insert(node)
    supersede(node, driver)
    _session_id, other = node.start_session()
    writer = f"{driver.bootstrap.session_id}_{driver.bootstrap.epoch}"

    def find() -> list[int]:
        return [
            write.number for write in other.clear_staging(["metastore"]) if write.writer == writer
        ]

    [number] = find()
    message = {"identities": ["metastore"], "cleared": [number]}
    response = driver._client.post("/clear_staging", json=message)
    assert response.json()["code"] == "lease_lost"
    assert find() == [number]


def lose_after_first_check(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let the first check in a call pass, as if the driver lost its session after it."""
    check, calls = module.load_owned_view, []

    def check_later(tx: Any, lease: DriverLease) -> Any:
        calls.append(lease)
        return None if len(calls) == 1 else check(tx, lease)

    monkeypatch.setattr(module, "load_owned_view", check_later)


def test_a_driver_that_loses_its_session_during_a_request_for_a_lock_gets_lease_lost(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(INSERT, session=session_id)["id"])
    driver.claim()
    change_session(node, session_id, "epoch = 2")
    lose_after_first_check(monkeypatch, table_journal)
    response = driver._client.post("/begin_write", json=make_message("begin_write", statement_id))
    assert response.json()["code"] == "lease_lost"


def make_orphans(node: InProcessNode, identity: str, count: int) -> set[str]:
    """Let drivers exit with tables that they have begun, and return the transactions' ids."""
    ids = {new_id("tx") for _ in range(count)}
    for transaction_id in ids:
        session_id, driver = node.start_session()
        statement_id = str(node.submit("CREATE TABLE t AS SELECT 1 AS a", session=session_id)["id"])
        driver.claim()
        driver.report_start(statement_id)
        staged = Staged(
            kind="session", catalog="c", identity=identity, target=transaction_id, record={}
        )
        for state in (PREPARED, BEGUN):
            assert driver.transact(transaction_id, statement_id, state, staged).applied
        node.launcher.report_exit(session_id, "it was killed")

    def are_orphaned() -> bool:
        page = node.http.get("/api/v1/transactions", params={"orphaned": True}).json()
        return ids <= {row["id"] for row in page["items"]}

    wait_until(are_orphaned, what="the transactions are orphaned")
    return ids


def test_a_driver_takes_over_a_few_orphaned_transactions_at_a_time(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 1})
    ids = make_orphans(node, "metastore", 11)
    _session, driver = node.start_session()
    lost_session, lost = node.start_session()
    change_session(node, lost_session, "epoch = 2")
    with monkeypatch.context() as patch:
        lose_after_first_check(patch, table_journal)
        response = lost._client.post("/recover", json={"identities": ["metastore"]})
        assert response.json()["code"] == "lease_lost"
    recovered = [driver.recover(["metastore"]) for _ in range(3)]
    assert [len(orphans) for orphans in recovered] == [10, 1, 0]
    assert {orphan.id for orphans in recovered for orphan in orphans} == ids


def test_a_list_of_orphaned_writes_is_bounded(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(INSERT, session=session_id)["id"])
    driver.claim()
    writes = [
        TableWrite(location=f"file:/{statement_id}/{number}", table=f"`t{number}`", overwrite=False)
        for number in range(101)
    ]
    assert driver.begin_write(statement_id, writes).granted
    supersede(node, driver)
    _session, other = node.start_session()
    numbers = [write.number for write in other.clear_staging(["metastore"])]
    assert len(numbers) == 100
    other.clear_staging(["metastore"], cleared=numbers)


@pytest.mark.parametrize("has_effects", [False, True])
def test_an_insert_runs_again_if_its_driver_has_announced_no_effects(
    node: InProcessNode, has_effects: bool
) -> None:
    session_id, driver = node.start_session()
    driver.announces_effects = True
    statement_id = str(node.submit(INSERT, session=session_id)["id"])
    driver.claim()
    assert driver.report_start(statement_id).applied
    if has_effects:
        assert driver.report_start(statement_id, has_effects=True).applied
    supersede(node, driver)
    assert node.statement(statement_id)["state"] == ("failed" if has_effects else "waiting")


def test_a_driver_starts_no_statement_that_another_driver_has_claimed(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(session=session_id)["id"])
    driver.claim()
    _session_id, other = node.start_session()
    assert not other.report_start(statement_id).applied
    assert node.statement(statement_id)["state"] == "launched"
    assert driver.report_start(statement_id).applied


def test_a_repeated_report_of_an_end_changes_nothing(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(session=session_id)["id"])
    driver.claim()
    assert driver.succeed(statement_id, note="first").applied
    before = node.statement(statement_id)
    assert not driver.succeed(statement_id, note="second", rows_written=7).applied
    assert node.statement(statement_id) == before


def test_a_driver_does_not_close_the_batch_of_another_epoch(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    link = node.node.driver_link
    assert not link._close_batch(DriverLease(session_id, driver.bootstrap.epoch + 1))
    assert node.session_state(session_id) == "running"


def test_a_driver_ends_a_statement_as_cancelled_on_request_only(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(session=session_id)["id"])
    driver.claim()
    assert driver.report_end(statement_id, StatementState.CANCELLED).applied
    statement = node.statement(statement_id)
    assert (statement["state"], statement["error"]["code"]) == ("failed", "statement_failed")


def test_a_failure_without_a_reason_has_an_error(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(session=session_id)["id"])
    driver.claim()
    assert driver.report_end(statement_id, StatementState.FAILED).applied
    assert "did not report why" in node.statement(statement_id)["error"]["message"]


def test_a_driver_gets_no_more_statements_than_its_parallelism(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=2)
    ids = [str(node.submit(session=session_id)["id"]) for _ in range(3)]
    assert [driver.poll(in_flight=ids[:count]).assignment is None for count in (0, 1, 2)] == [
        *(False, False, True)
    ]
    # A statement whose assignment was lost is assigned again.
    assignment = driver.poll(in_flight=ids[1:2]).assignment
    assert assignment is not None
    assert assignment.statement_id == ids[0]


def test_a_driver_that_cannot_separate_queries_gets_one_at_a_time(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=2)
    driver.separates_queries = False
    first, second = (str(node.submit(session=session_id)["id"]) for _ in range(2))
    assert driver.claim().statement_id == first
    assert driver.poll(in_flight=[first]).assignment is None
    driver.succeed(first)
    assert driver.claim().statement_id == second


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_driver_knows_whether_statements_run_beside_each_other(
    node: InProcessNode, parallelism: int
) -> None:
    session_id, driver = node.start_session(parallelism=parallelism)
    statement_id = str(node.submit(session=session_id)["id"])
    again = driver.claim(), driver.claim()
    assert [each.statement_id for each in again] == [statement_id] * 2
    assert [each.alone for each in again] == [parallelism == 1] * 2


def test_queries_whose_driver_was_lost_run_one_at_a_time(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=3)
    ids = [str(node.submit(session=session_id)["id"]) for _ in range(3)]
    assert [driver.poll(in_flight=ids[:count]).assignment is None for count in range(2)] == [
        *(False, False)
    ]
    supersede(node, driver)
    other = node.launcher.connect_driver(session_id, launch=2)
    other.hello()
    for number, statement_id in enumerate(ids):
        assert other.claim().statement_id == statement_id
        if number < 2:
            assert other.poll(in_flight=[statement_id]).assignment is None
            waiting_for = node.statement(ids[number + 1])["waiting_for"]
            assert (waiting_for["code"], waiting_for["statement_id"]) == ("exclusive", statement_id)
        other.succeed(statement_id)


def test_a_cancel_is_sent_until_the_driver_has_received_it(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=2)
    first, second = (str(node.submit(session=session_id)["id"]) for _ in range(2))
    driver.claim()
    driver.poll(in_flight=[first])
    both = [first, second]
    assert driver.poll(in_flight=both).cancel == []
    assert node.http.post(f"/api/v1/statements/{first}/cancel").status_code == 202
    for _ in range(2):
        assert driver.poll(in_flight=both).cancel == [first]
    assert driver.poll(in_flight=both, cancels_received=[first]).cancel == []
    assert driver.poll(in_flight=[second]).cancel == []


def test_a_goodbye_of_a_lost_driver_fails_no_session(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.submit(session=session_id)
    assert driver.goodbye(Failure(code="driver_lost", message="The JVM has ended.")).applied
    node.launcher.wait_for_request(session_id, launch=2)
    assert node.session_state(session_id) != "failed"


def test_the_commit_of_an_unknown_transaction_is_ignored(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = str(node.submit(session=session_id)["id"])
    driver.claim()
    assert driver.succeed(statement_id, committed=new_id("tx")).applied
    assert node.statement(statement_id)["state"] == "success"
