"""A deployment whose node or driver is killed at every step: it is finished, and no state is lost.

The job counts the numbers that it has ever read, and each input file is removed once it is read. A
count therefore proves that the run continues with the state of the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.plan import Fault, Plan
from tests.faults.points import read_points
from tests.support.jobs import CountingJob
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
STEP = "store operation.step"
TASK_ENDED = "link loop:ended"
STEPS = 9
"""Least number of transactions of a change of the configuration."""
TASKS = 4
"""Check, savepoint, restore, manifest."""


class FaultyNode(NodeProcess):
    """A node that is started again after it was killed."""

    def __init__(self, folder: Path) -> None:
        self.plan = Plan(folder / "plan", read_points())
        super().__init__(
            folder / "home",
            environment=self.plan.environment,
            LEASE__DURATION="15s",
            LEASE__RENEW="1s",
            LEASE__ORPHAN="60s",
        )

    def ensure(self) -> None:
        """Start the node again if it was killed."""
        if self.process.poll() is not None:
            self.http.close()
            self.start()


@pytest.fixture(autouse=True)
def _no_child_left() -> None:
    """Allow the node that a test has started again: `close` of the node ends it."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyNode]:
    process = FaultyNode(tmp_path_factory.mktemp("faulty"))
    yield process
    process.plan.write([])
    process.ensure()
    process.close()


class DeployedJob:
    """A job that is deployed once, and then changed again and again."""

    def __init__(self, node: FaultyNode, folder: Path) -> None:
        self._node = node
        self._reader = node.session(name="jobs-default")
        node.wait_running(self._reader)
        self._job = CountingJob(node, folder, name="faulty")
        self._job.replace_file()
        self._job.deploy()
        self._expected = 10
        self._changes = 0
        self._job.wait_for_count(self._reader, self._expected)

    def change(self, fault: Fault) -> bool:
        """Change the configuration while a process is killed, and check the state afterwards.

        Return whether the fault happened: a deployment may pass its point less often.
        """
        self._changes += 1
        self._job.manifest["description"] = f"Change {self._changes}"
        self._job.replace_file()
        self._expected += 10
        self._node.plan.write([fault])
        deployment = self._deploy()
        happened = self._node.plan.read_actions()
        self._node.plan.write([])

        assert deployment["state"] == "applied", deployment
        assert self._job.show()["state"] == "running"
        self._job.wait_for_count(self._reader, self._expected)
        self._check_checkpoints()
        return happened == [fault.action]

    def _deploy(self) -> dict[str, str]:
        """Plan and apply, although the node dies in between."""
        planned = self._repeat(self._job.begin_plan)
        planned = self._repeat(lambda: self._job.wait_for_plan(planned))
        self._repeat(lambda: self._apply(planned))
        ended: dict[str, str] = self._repeat(lambda: self._job.wait_for_end(planned["id"]))
        return ended

    def _apply(self, planned):  # type: ignore[no-untyped-def]
        path = f"/api/v1/deployments/{planned['id']}"
        if self._node.http.get(path).json()["state"] == "planned":
            self._job.begin_apply(planned)

    def _repeat(self, call):  # type: ignore[no-untyped-def]
        """Call until the node has answered. A killed node is started again."""
        import httpx

        answers = []

        def has_answered() -> bool:
            try:
                answers.append(call())
            except httpx.TransportError:
                wait_until(lambda: self._node.process.poll() is not None, what="the node is dead")
                self._node.ensure()
                return False
            return True

        wait_until(has_answered, seconds=200, what="the node answers")
        return answers[0]

    def _check_checkpoints(self) -> None:
        """No two runs share a checkpoint: each has a directory of its own, used by one run."""
        queries = self._node.http.get("/api/v1/streams", params={"live": "true"}).json()["items"]
        live = [query["checkpoint"] for query in queries if query["scope"] == "faulty"]
        assert len(live) == 1
        savepoints = self._job.show()["savepoints"]
        assert savepoints[0]["state"] == "verified"


@pytest.fixture(scope="module")
def job(node: FaultyNode, tmp_path_factory: pytest.TempPathFactory) -> DeployedJob:
    """Return a job for all tests: each changes it, and leaves it running."""
    return DeployedJob(node, tmp_path_factory.mktemp("job") / "job")


def test_a_deployment_is_finished_when_its_node_is_killed(job: DeployedJob) -> None:
    assert job.change(Fault(STEP, "after", "kill", hit=4))
    assert job.change(Fault(STEP, "before", "kill", hit=8))


@pytest.mark.matrix
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_deployment_is_finished_wherever_its_node_is_killed(job: DeployedJob, side: str) -> None:
    hit = 1
    while job.change(Fault(STEP, side, "kill", hit=hit)):
        hit += 1

    assert hit > STEPS


def test_a_deployment_is_finished_when_its_driver_is_killed(job: DeployedJob) -> None:
    assert job.change(Fault(TASK_ENDED, "before", "kill_jvm", hit=2))


@pytest.mark.matrix
@pytest.mark.parametrize("action", ["kill", "kill_jvm"])
def test_a_deployment_is_finished_wherever_its_driver_is_killed(
    job: DeployedJob, action: str
) -> None:
    for hit in range(1, TASKS + 1):
        assert job.change(Fault(TASK_ENDED, "before", action, hit=hit))
