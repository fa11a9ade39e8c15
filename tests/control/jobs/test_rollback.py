"""Rollbacks: no sink may skip batches because a run begins with an older state."""

from __future__ import annotations

from tests.support.deployed_job import DeployedJob

from headrace.control.jobs.actions import find_newest
from headrace.model.deployment import VersionOrigin
from headrace.model.failure import Failure


def test_a_rollback_of_the_configuration_keeps_the_newest_state(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.deploy(trigger="2 seconds")
    job.advance(5)
    rolled_back = job.act("rollback", version=None)

    assert rolled_back["step"] == "applied"
    assert rolled_back["decision"] == "restart-from-savepoint"
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 7


def test_a_rollback_of_a_compatible_change_keeps_the_newest_state(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy(**{"on-query-change": "keep-compatible"})
    path = list(job.drivers.logs)
    job.deploy(sql="SELECT value FROM numbers WHERE value > 1")
    job.advance(5)
    rolled_back = job.act("rollback", version=1)

    assert rolled_back["decision"] == "restart-from-savepoint"
    assert list(job.drivers.logs) == path
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 7


def test_a_rollback_past_a_clean_start_continues_where_the_old_version_ended(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(3)
    job.deploy(sql="SELECT count(value) AS value FROM numbers")
    job.advance(7)
    rolled_back = job.act("rollback", version=None)

    assert rolled_back["decision"] == "restart-from-savepoint"
    assert len(job.drivers.logs) == 2
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 4


def test_a_second_rollback_uses_the_state_of_the_first(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy()
    job.deploy(sql="SELECT count(value) AS value FROM numbers")
    job.act("rollback", version=1)
    job.advance(6)
    job.act("rollback", version=2)
    again = job.act("rollback", version=1)

    assert again["decision"] == "restart-from-savepoint"
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 8


def test_a_version_that_ended_without_a_savepoint_is_copied_before_it_is_replaced(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(4)
    job.act("stop", "?savepoint=false")
    job.deploy(sql="SELECT count(value) AS value FROM numbers")
    rolled_back = job.act("rollback", version=None)

    assert rolled_back["decision"] == "restart-from-savepoint"
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 5


def test_a_rollback_to_a_version_whose_state_was_not_saved_begins_without_state(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.act("savepoint")
    job.advance(4)
    job.act("stop", "?savepoint=false")
    job.drivers.refused = {"savepoint"}
    job.deploy(sql="SELECT count(value) AS value FROM numbers")
    job.drivers.refused = set()
    rolled_back = job.act("rollback", version=None)

    assert rolled_back["decision"] == "restart-clean"
    assert "was not saved" in rolled_back["reason"]
    assert len(job.drivers.logs) == 3
    assert job.drivers.skipped == []


def test_a_failed_rollback_is_not_repeated_from_the_state_that_its_sink_has_passed(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(3)
    job.deploy(sql="SELECT count(value) AS value FROM numbers")
    broken = Failure(code="user_code_failed", message="the machine is broken")
    job.drivers.fail = lambda query: None if "count(" in query.spec.model_dump_json() else broken
    failed = job.act("rollback", version=1)
    job.drivers.fail = lambda _query: None
    again = job.act("rollback", version=1)

    assert failed["step"] == "failed"
    assert again["decision"] == "restart-clean"
    assert job.drivers.skipped == []


def test_a_rollback_past_a_clean_start_of_the_same_query_is_a_version_of_its_own(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(3)
    job.act("stop")
    job.act("start", clean=True)
    job.act("rollback", version=1)
    job.advance(4)
    job.act("rollback", version=2)
    again = job.act("rollback", version=1)

    assert again["decision"] == "restart-from-savepoint"
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 9


def test_the_newest_version_of_a_lineage() -> None:
    origins = [
        VersionOrigin(version=number, revision=revision, has_state=deployed, parent=parent)
        for revision, (number, deployed, parent) in enumerate(
            [(1, True, None), (1, True, 1), (2, True, None), (3, True, 1), (4, False, 3)], 1
        )
    ]

    assert [find_newest(origins, number) for number in (1, 2, 3)] == [3, 2, 3]
    assert find_newest([], 1) is None


def test_a_job_with_one_version_has_none_to_return_to(deployed_job: DeployedJob) -> None:
    deployed_job.deploy()
    refused = deployed_job.node.http.post(
        f"/api/v1/jobs/{deployed_job.manifest['name']}/rollback", json={}
    )

    assert refused.status_code == 404
    assert "has no earlier version to return to. Deployed versions: 1." in refused.text
