"""The write locks of tables of files, over the link."""

from __future__ import annotations

import secrets

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import RunningQuery
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.transaction import TableWrite

pytestmark = pytest.mark.finding("B21")


class Insert:
    """A running INSERT and its driver."""

    def __init__(self, node: InProcessNode, table: str, *, overwrite: bool = False) -> None:
        self.session, self.driver = node.start_session()
        self.statement = str(node.submit("INSERT INTO t SELECT 1", session=self.session)["id"])
        self.driver.claim()
        self.driver.report_start(self.statement)
        self.writes = [TableWrite(location=table, table="`d`.`t`", overwrite=overwrite)]

    def ask(self) -> tuple[bool, str | None]:
        lock = self.driver.begin_write(self.statement, self.writes)
        return lock.granted, lock.waits_for


@pytest.fixture
def table() -> str:
    """Return the location of a table that no other test uses: the tests share a node."""
    return f"file:/{secrets.token_hex(4)}"


def test_an_overwrite_gets_its_lock_when_the_append_before_it_has_ended(
    node: InProcessNode, table: str
) -> None:
    append, overwrite = Insert(node, table), Insert(node, table, overwrite=True)
    assert append.ask() == (True, None)
    assert overwrite.ask() == (False, append.statement)
    append.driver.succeed(append.statement, wrote=True)
    assert overwrite.ask() == (True, None)


def test_the_lock_of_a_failed_write_is_released(node: InProcessNode, table: str) -> None:
    first, second = (Insert(node, table, overwrite=True) for _ in range(2))
    first.ask()
    assert second.ask() == (False, first.statement)
    failure = Failure(code="execution_error", message="The rows are wrong.")
    first.driver.report_end(first.statement, StatementState.FAILED, failure=failure, wrote=True)
    assert second.ask() == (True, None)


def test_a_write_that_was_cancelled_gets_no_lock(node: InProcessNode, table: str) -> None:
    insert = Insert(node, table)
    assert node.http.post(f"/api/v1/statements/{insert.statement}/cancel").status_code == 202
    assert insert.ask() == (False, None)


def test_a_driver_cannot_take_the_lock_of_another_sessions_statement(
    node: InProcessNode, table: str
) -> None:
    victim, other = Insert(node, table), Insert(node, table, overwrite=True)
    forged = other.driver.begin_write(victim.statement, other.writes)
    assert not forged.granted
    assert victim.ask() == (True, None)
    other.driver.succeed(other.statement)
    # Nor can the other driver release the lock.
    assert (
        other.driver.report_end(
            victim.statement,
            StatementState.FAILED,
            failure=Failure(code="x", message="x"),
            wrote=True,
        ).applied
        is False
    )
    overwrite = Insert(node, table, overwrite=True)
    assert overwrite.ask() == (False, victim.statement)


def test_repeated_requests_write_to_the_store_once(node: InProcessNode, table: str) -> None:
    first, second = (Insert(node, table, overwrite=True) for _ in range(2))
    first.ask()
    second.ask()
    before = node.database.write_counts["link.begin_write"]
    for _ in range(3):
        assert second.ask() == (False, first.statement)
    assert node.database.write_counts["link.begin_write"] == before


def test_a_request_without_a_table_is_refused(node: InProcessNode, table: str) -> None:
    insert = Insert(node, table)
    insert.writes = []
    with pytest.raises(httpx.HTTPStatusError) as caught:
        insert.ask()
    assert caught.value.response.status_code == 400


def test_the_next_driver_clears_the_staging_of_a_lost_driver(
    node: InProcessNode, table: str
) -> None:
    lost = Insert(node, table)
    lost.ask()
    epoch = lost.driver.bootstrap.epoch
    waiting = node.submit("SELECT 1", session=lost.session)["id"]
    node.launcher.report_exit(lost.session, "it was killed")
    driver: ScriptedDriver = node.launcher.connect_driver(lost.session, launch=2)
    driver.hello()
    assert node.statement(lost.statement)["error"]["code"] == "driver_lost"
    [write] = [
        write
        for write in driver.clear_staging(["metastore"])
        if write.writer == f"{lost.session}_{epoch}"
    ]
    assert write.table == "`d`.`t`"
    driver.clear_staging(["another"], cleared=[write.number])
    remaining = driver.clear_staging(["metastore"])
    assert write.number in [other.number for other in remaining]
    remaining = driver.clear_staging(["metastore"], cleared=[write.number])
    assert write.number not in [other.number for other in remaining]
    assert node.statement(waiting)["state"] == "waiting"


def test_what_a_query_stages_in_a_table_is_cleared_after_the_loss_of_its_driver(
    start_node: StartNode, table: str
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    query, other = RunningQuery(node), RunningQuery(node)
    write = TableWrite(location=table, table="`d`.`t`", overwrite=True)
    assert query.driver.announce_writes(query.id, [write]).applied
    assert query.driver.announce_writes(query.id, [write]).applied
    # It blocks no statement, and another driver cannot announce it.
    assert not other.driver.announce_writes(query.id, [write]).applied
    insert = Insert(node, table)
    assert insert.ask() == (True, None)
    assert insert.driver.clear_staging(["metastore"]) == []
    writer = f"{query.session}_{query.driver.bootstrap.epoch}"
    node.launcher.report_exit(query.session, "killed by SIGKILL")
    cleared = wait_until(
        lambda: insert.driver.clear_staging(["metastore"]), what="the driver counts as lost"
    )

    assert [(each.writer, each.table) for each in cleared] == [(writer, "`d`.`t`")]
    numbers = [each.number for each in cleared]
    assert insert.driver.clear_staging(["metastore"], cleared=numbers) == []
