"""Takeover of drivers on a host that no node can reach: nothing confirms that they have ended."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.node_client import Json
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.control.jobs.tasks import submit_task
from headrace.control.launchers.base import DriverStatus, Handle
from headrace.errors import DriverOnOtherHost
from headrace.model.ids import new_id
from headrace.model.job_messages import WriteManifests
from headrace.model.lifecycle import TransactionState
from headrace.model.transaction import Staged
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.tables import sessions, transactions

pytestmark = pytest.mark.finding("B4")

QUICK = {"sweep": "50ms", "orphan": "10m"}


class OtherHostLauncher(ScriptedLauncher):
    """A launcher whose drivers all run on another host, once `host_is_lost` is set."""

    host_is_lost = False
    refused_calls = 0

    def poll(self, handle: Handle) -> DriverStatus:
        self._refuse()
        return super().poll(handle)

    def kill(self, handle: Handle) -> None:
        self._refuse()
        super().kill(handle)

    def _refuse(self) -> None:
        if self.host_is_lost:
            self.refused_calls += 1
            raise DriverOnOtherHost("The driver is process 1 of the host b.")


@pytest.fixture
def launcher() -> OtherHostLauncher:
    return OtherHostLauncher()


def start_statement(
    node: InProcessNode, text: str, launcher: OtherHostLauncher
) -> tuple[str, ScriptedDriver, str]:
    """Start a statement, and lose the host of its driver; return session, driver, statement."""
    session_id, driver = node.start_session()
    statement_id = node.submit(text, session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    launcher.host_is_lost = True
    return session_id, driver, statement_id


def let_check(
    node: InProcessNode, launcher: OtherHostLauncher, session_id: str, times: int
) -> None:
    """Let the node ask in vain for the state of a driver so many times, each after a lease."""

    def has_checked() -> bool:
        # A check extends the lease, also after this test has ended it.
        node.expire_lease(session_id)
        return launcher.refused_calls >= times

    wait_until(has_checked, what="the node checks the driver")


def pass_orphan_time(node: InProcessNode, session_id: str) -> None:
    """Let so much time pass that a driver without renewals must have ended itself."""
    with node.database.write("test.orphan") as tx:
        own = update(sessions).where(sessions.c.id == session_id)
        tx.execute(own.values(last_update_time=clock(-3600)))


def await_end(node: InProcessNode, session_id: str, statement_id: str) -> Json:
    """Let leases expire until a statement has ended, and return the statement."""

    def find_ended() -> Json | None:
        for epoch in (1, 2):
            # The driver was fenced, or not.
            node.expire_lease(session_id, epoch=epoch)
        statement = node.statement(statement_id)
        return statement if statement["ended_at"] else None

    return wait_until(find_ended, what="the statement has ended")


def test_a_session_with_only_queries_in_flight_leaves_a_lost_host_at_once(
    start_node: StartNode, launcher: OtherHostLauncher
) -> None:
    node = start_node(launcher, lease=QUICK)
    session_id, _, query = start_statement(node, "SELECT 1", launcher)
    node.expire_lease(session_id)
    second = launcher.connect_driver(session_id, launch=2)
    second.hello()
    assignment = second.claim()
    assert (assignment.statement_id, assignment.attempt) == (query, 2)


@pytest.mark.parametrize(
    "work", ["a statement that writes", "a transaction", "a stream", "a task that writes"]
)
def test_a_driver_on_a_lost_host_that_could_write_is_not_replaced(
    start_node: StartNode, launcher: OtherHostLauncher, work: str
) -> None:
    node = start_node(launcher, lease=QUICK)
    text = "INSERT INTO t VALUES (1)" if work == "a statement that writes" else "SELECT 1"
    session_id, driver, statement_id = start_statement(node, text, launcher)
    if work == "a stream":
        driver.renew(streams=1)
    if work == "a task that writes":
        driver.succeed(statement_id)
        statement_id = _start_task(node, session_id, driver)
    if work == "a transaction":
        _open_recovered_transaction(node, session_id)
    let_check(node, launcher, session_id, 3)
    assert node.statement(statement_id)["state"] == "running"
    assert node.session_state(session_id) == "running"
    # The host is back: the driver has kept its lease, because nothing has fenced it.
    assert driver.renew().applied


def test_a_live_node_on_the_host_of_a_driver_decides_about_the_driver(
    start_node: StartNode, launcher: OtherHostLauncher
) -> None:
    node = start_node(launcher, lease=QUICK)
    with node.database.write("test.other_node") as tx:
        nodes.register(tx, "no_other", address="http://b", version="1", seconds=3600)
    session_id, _, _ = start_statement(node, "SELECT 1", launcher)
    with node.database.write("test.launched_by") as tx:
        tx.execute(update(sessions).values(launched_by="no_other"))
    let_check(node, launcher, session_id, 3)
    assert node.session_state(session_id) == "running"
    # The lease was not extended, so the other node can act at once.
    with node.database.read() as tx:
        assert tx.execute(select(sessions.c.lease_until < clock())).scalar_one()


def test_a_driver_on_a_lost_host_is_replaced_after_it_must_have_ended_itself(
    start_node: StartNode, launcher: OtherHostLauncher
) -> None:
    node = start_node(launcher, lease=QUICK)
    session_id, _, insert = start_statement(node, "INSERT INTO t VALUES (1)", launcher)
    let_check(node, launcher, session_id, 1)
    assert node.statement(insert)["state"] == "running"
    pass_orphan_time(node, session_id)
    ended = await_end(node, session_id, insert)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "driver_lost")
    assert "host is lost" in ended["error"]["message"]
    assert node.session_state(session_id) == "recovering"


def test_a_fenced_driver_on_a_lost_host_blocks_its_session_until_it_must_have_ended(
    start_node: StartNode, launcher: OtherHostLauncher
) -> None:
    node = start_node(launcher, lease=QUICK)
    session_id, _, insert = start_statement(node, "INSERT INTO t VALUES (1)", launcher)
    launcher.report_exit(session_id, "killed by SIGKILL")
    wait_until(lambda: launcher.refused_calls, what="the node tries to end the driver")
    assert node.statement(insert)["state"] == "running"
    pass_orphan_time(node, session_id)
    ended = await_end(node, session_id, insert)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "driver_lost")


def test_a_session_leaves_a_lost_host_when_an_operator_confirms_its_end(
    start_node: StartNode, launcher: OtherHostLauncher
) -> None:
    node = start_node(launcher, lease=QUICK)
    with node.database.write("test.other_node") as tx:
        nodes.register(tx, "no_other", address="http://b", version="1", seconds=-1)
    session_id, _, insert = start_statement(node, "INSERT INTO t VALUES (1)", launcher)
    with node.database.write("test.launched_by") as tx:
        tx.execute(update(sessions).values(launched_by="no_other"))
    let_check(node, launcher, session_id, 2)
    assert node.statement(insert)["state"] == "running"
    confirmed = node.http.post("/api/v1/nodes/no_other/gone", json={"confirmed": True})
    ended = await_end(node, session_id, insert)

    assert confirmed.json()["state"] == "gone"
    assert (ended["state"], ended["error"]["code"]) == ("failed", "driver_lost")
    assert node.session_state(session_id) == "recovering"


def _start_task(node: InProcessNode, session_id: str, driver: ScriptedDriver) -> str:
    """Start a task of a job, and return its statement."""
    task = WriteManifests(texts={"/state/manifests/job.yaml": "name: job"})
    with node.database.write("test.task") as tx:
        task_id = submit_task(tx, LOCAL_OWNER, session_id, task, "write the manifest of job")
    assert driver.claim().statement_id == task_id
    driver.report_start(task_id)
    return task_id


def _open_recovered_transaction(node: InProcessNode, session_id: str) -> None:
    """Let the driver of a session recover the transaction of another, ended statement."""
    other_session, other = node.start_session()
    ctas = node.submit("CREATE TABLE t AS SELECT 1", session=other_session)["id"]
    other.claim()
    staged = Staged(kind="session", catalog="spark_catalog", identity="i", target="t", record={})
    transaction_id = new_id("tx")
    assert other.transact(transaction_id, ctas, TransactionState.PREPARED, staged).applied
    with node.database.write("test.adopt") as tx:
        tx.execute(
            update(transactions)
            .where(transactions.c.id == transaction_id)
            .values(session_id=session_id, epoch=1)
        )
