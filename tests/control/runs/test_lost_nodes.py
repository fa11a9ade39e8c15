"""Runs whose node is lost, or believes that it still makes them: one end, and a free job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update
from tests.support.batch_jobs import FIRST, HOURLY, BatchJob
from tests.support.in_process_node import StartNode

from headrace.control.jobs.firing import fire as fire_schedule
from headrace.control.runs.steps import RunSteps
from headrace.deploy.schedule import find_next
from headrace.errors import LeaseLost
from headrace.model.deployment import OperationLease
from headrace.model.lifecycle import RunState
from headrace.model.run import RUN_KIND, BatchStatement, Overlap
from headrace.store import operations
from headrace.store.clock import clock
from headrace.store.jobs import runs, schedules
from headrace.store.tables import operations as table

pytestmark = pytest.mark.usefixtures("_short_waits")


@pytest.fixture
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (0.01, 0.02))
    monkeypatch.setattr("headrace.control.runs.steps._LONGEST_WAIT", 0.02)


class Nodes:
    """A run whose statement is claimed, and nodes that hold or have held its lease."""

    def __init__(self, job: BatchJob) -> None:
        self.job = job
        self.run_id = job.call("jobs/load/runs")["id"]
        assert job.next_statement() == FIRST
        job.stop_operations()
        context = job.node.node.context
        self.steps = RunSteps(context, job.node.node.statements)
        with job.node.database.read() as tx:
            query = table.select().where(table.c.ref == self.run_id)
            row = tx.execute(query).mappings().one()
        self.first = OperationLease(id=row["id"], node_id=row["node_id"], epoch=row["epoch"])

    def adopt(self, node_id: str) -> list[OperationLease]:
        """Let the lease expire and another node claim the operations that are free."""
        with self.job.node.database.write("test") as tx:
            tx.execute(update(table).values(lease_until=clock(-1)))
            return [lease for lease, *_rest in operations.claim(tx, node_id, 60, 9, [RUN_KIND])]

    def read_state(self) -> RunState:
        with self.job.node.database.read() as tx:
            run = runs.get(tx, self.run_id)
        assert run is not None
        return run.state


@pytest.fixture
def start_nodes(start_node: StartNode) -> Callable[[], Nodes]:
    def start() -> Nodes:
        return Nodes(BatchJob(start_node(), statements=[BatchStatement(text=FIRST)]))

    return start


@pytest.mark.parametrize("is_shared", [False, True], ids=["other id", "same id"])
def test_a_node_whose_lease_has_expired_changes_no_run_that_another_makes(
    start_nodes: Callable[[], Nodes], is_shared: bool
) -> None:
    nodes = start_nodes()
    [second] = nodes.adopt(nodes.first.node_id if is_shared else "no_2")
    nodes.job.succeed()
    with pytest.raises(LeaseLost):
        nodes.steps.advance(nodes.first, nodes.run_id)
    assert nodes.read_state() is RunState.RUNNING
    assert nodes.steps.advance(second, nodes.run_id) is None
    assert nodes.read_state() is RunState.SUCCEEDED
    with pytest.raises(LeaseLost):
        nodes.steps.advance(nodes.first, nodes.run_id)
    assert nodes.read_state() is RunState.SUCCEEDED


def test_a_run_that_has_succeeded_stays_so_when_the_lease_of_its_node_expires(
    start_nodes: Callable[[], Nodes],
) -> None:
    nodes = start_nodes()
    nodes.job.succeed()
    assert nodes.steps.advance(nodes.first, nodes.run_id) is None
    assert nodes.adopt("no_2") == []
    with pytest.raises(LeaseLost):
        nodes.steps.advance(nodes.first, nodes.run_id)
    assert nodes.read_state() is RunState.SUCCEEDED


def test_a_lost_node_blocks_a_job_that_skips_until_another_has_adopted_its_run(
    start_nodes: Callable[[], Nodes],
) -> None:
    nodes = start_nodes()

    def fire() -> RunState:
        """Let the next time of the schedule come. Return the state of its run."""
        with nodes.job.node.database.write("test") as tx:
            schedule = schedules.lock(tx, nodes.job.id)
            assert schedule is not None
            assert schedule.rules.clock is not None
            firing = find_next(schedule.rules.clock, schedule.cursor)
            assert firing is not None
            fire_schedule(tx, schedule, firing.instant + timedelta(seconds=1))
            run = runs.find_last(tx, nodes.job.id, firing.instant)
        assert run is not None
        return run.state

    assert HOURLY.overlap is Overlap.SKIP
    nodes.job.succeed()
    assert fire() is RunState.SKIPPED
    [second] = nodes.adopt("no_2")
    assert nodes.steps.advance(second, nodes.run_id) is None
    assert fire() is RunState.DUE
