"""Jobs, operations and savepoints, on every store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from headrace.errors import JobNameTaken
from headrace.model.deployment import (
    ChangeRecord,
    DeploymentPlan,
    Job,
    JobAction,
    JobSession,
    VersionSpec,
)
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.job import JobDecision, SavepointContent
from headrace.model.lifecycle import ChangeStep, DeploymentState, JobState, SavepointState
from headrace.model.session import SessionSpec
from headrace.store import history, operations
from headrace.store.clock import clock, read_clock
from headrace.store.database import Database, Tx
from headrace.store.jobs import job_changes, jobs, savepoints
from headrace.store.tables import job_versions

RECORD = ChangeRecord(
    action=JobAction.DEPLOY, decision=JobDecision.START_CLEAN, reason="The job is new."
)
CONTENT = SavepointContent(
    files=1, bytes=2, checksum="c", spark_version="4.1.3", is_clean=True, last_batches={"": 3}
)


def insert_job(tx: Tx, name: str = "j", owner: str = "o", location: str = "/state") -> Job:
    return jobs.insert_job(tx, owner, name, location, state_place=f"file:{location}", actor=owner)


def deploy(tx: Tx, *names: str) -> tuple[str, list[str]]:
    """Begin a deployment of new jobs. Return its id, and those of its changes."""
    plan = DeploymentPlan(state_location="/state")
    deployment_id = job_changes.insert_deployment(tx, "o", JobAction.DEPLOY, plan, actor="test")
    for state in (DeploymentState.PLANNED, DeploymentState.APPLYING):
        deployment = job_changes.lock_deployment(tx, deployment_id)
        assert deployment is not None
        job_changes.move_deployment(tx, deployment, state, actor="o")
    changes = [
        job_changes.insert_change(tx, deployment_id, insert_job(tx, name), RECORD, actor="o")
        for name in names
    ]
    return deployment_id, changes


def walk(tx: Tx, change_id: str, *steps: ChangeStep, failure: Failure | None = None) -> None:
    for step in steps:
        change = job_changes.get(tx, change_id)
        assert change is not None
        job_changes.step(tx, change, step, actor="n", failure=failure)


@pytest.mark.parametrize(
    ("owner", "name", "location"), [("o", "J", "/elsewhere"), ("other", "J", "/state")]
)
def test_a_name_and_a_place_belong_to_one_live_job(
    store: Database, owner: str, name: str, location: str
) -> None:
    with store.write("test") as tx:
        insert_job(tx)
    with pytest.raises(JobNameTaken), store.write("test") as tx:
        insert_job(tx, name, owner, location)


def test_a_deleted_job_frees_its_name(store: Database) -> None:
    with store.write("test") as tx:
        job = insert_job(tx)
        for state in (JobState.STOPPED, JobState.STOPPING, JobState.DELETED):
            locked = jobs.lock(tx, job.id)
            assert locked is not None
            jobs.transition(tx, locked, state, actor="o")
        assert jobs.find(tx, "o", "j") is None
        assert insert_job(tx).id != job.id


def test_each_change_of_a_job_raises_its_generation(store: Database) -> None:
    with store.write("test") as tx:
        job = insert_job(tx)
        jobs.transition(tx, job, JobState.RUNNING, actor="o", deployed=jobs.Deployed("jv", "run"))
        changed = jobs.get(tx, job.id)
        assert changed is not None
        assert changed.generation == job.generation + 1
        assert (changed.version_id, changed.run) == ("jv", "run")


def test_a_job_follows_the_end_of_its_queries_only_while_it_runs(store: Database) -> None:
    failure = Failure(code="c", message="m")
    with store.write("test") as tx:
        job = insert_job(tx)
        jobs.end_with_query(tx, "o", "j", failure=failure, is_last=True, actor="d")
        deploying = jobs.get(tx, job.id)
        assert deploying is not None
        jobs.transition(tx, deploying, JobState.RUNNING, actor="o")
        jobs.end_with_query(tx, "o", "j", failure=None, is_last=False, actor="d")
        running = jobs.get(tx, job.id)
        jobs.end_with_query(tx, "o", "j", failure=failure, is_last=False, actor="d")
        failed = jobs.get(tx, job.id)

    assert deploying.state is JobState.DEPLOYING
    assert running is not None
    assert running.state is JobState.RUNNING
    assert failed is not None
    assert (failed.state, failed.failure) == (JobState.FAILED, failure)


def test_a_deployment_ends_with_its_last_change(store: Database) -> None:
    with store.write("test") as tx:
        deployment_id, (first, second) = deploy(tx, "a", "b")
        stopped = (ChangeStep.STOPPED, ChangeStep.VERIFIED)
        walk(tx, first, *stopped, ChangeStep.APPLIED)
        applying = job_changes.get_deployment(tx, deployment_id)
        walk(tx, second, ChangeStep.STOPPED, ChangeStep.UNDOING, ChangeStep.FAILED)
        ended = job_changes.get_deployment(tx, deployment_id)
        freed = jobs.find(tx, "o", "a")

    assert applying is not None
    assert applying.state is DeploymentState.APPLYING
    assert ended is not None
    assert ended.state is DeploymentState.FAILED
    assert freed is not None
    assert freed.change_id is None


def test_a_step_that_the_lifecycle_forbids_is_refused(store: Database) -> None:
    with store.write("test") as tx:
        _deployment, (change_id,) = deploy(tx, "a")
        with pytest.raises(ValueError, match="cannot go from planned to proven"):
            walk(tx, change_id, ChangeStep.PROVEN)


def test_an_operation_has_one_node_until_its_lease_expires(store: Database) -> None:
    with store.write("test") as tx:
        operations.insert_operation(tx, "plan", "dp_1", actor="o")
        [(first, kind, ref)] = operations.claim(tx, "n1", 60.0, 10, ["plan"])
        assert operations.claim(tx, "n2", 60.0, 10, ["plan"]) == []
        assert operations.renew(tx, first, -1.0)
        assert operations.has_free(tx, ["plan"])
        [(second, _kind, _ref)] = operations.claim(tx, "n2", 60.0, 10, ["plan"])

        assert (kind, ref) == ("plan", "dp_1")
        assert not operations.renew(tx, first, 60.0)
        assert operations.renew(tx, second, 60.0)
        operations.finish(tx, second)
        assert not operations.renew(tx, second, 60.0)
        assert not operations.has_free(tx, ["plan"])


def test_an_operation_of_a_kind_that_a_node_does_not_know_is_left_to_others(
    store: Database,
) -> None:
    with store.write("test") as tx:
        operations.insert_operation(tx, "compaction", "dp_1", actor="o")
        assert not operations.has_free(tx, ["plan"])
        assert operations.claim(tx, "n1", 60.0, 10, ["plan"]) == []
        assert len(operations.claim(tx, "n2", 60.0, 10, ["plan", "compaction"])) == 1


def test_a_node_that_stops_releases_its_operations(store: Database) -> None:
    with store.write("test") as tx:
        operations.insert_operation(tx, "plan", "dp_1", actor="o")
        operations.claim(tx, "n1", 60.0, 10, ["plan"])
        operations.release(tx, "n1")
        assert len(operations.claim(tx, "n2", 60.0, 10, ["plan"])) == 1


def test_a_verified_savepoint_is_never_copied_again(store: Database) -> None:
    savepoint_id = new_id("sp")
    with store.write("test") as tx:
        savepoints.insert_savepoint(
            tx, savepoint_id, "jb_1", version=1, run="r", place="/p", actor="o"
        )
        verified = SavepointState.VERIFIED
        assert savepoints.move(tx, savepoint_id, verified, actor="o", content=CONTENT)
        assert not savepoints.move(tx, savepoint_id, SavepointState.COPYING, actor="o")
        [savepoint] = savepoints.list_of_jobs(tx, ["jb_1"])
        assert (savepoint.state, savepoint.content) == (verified, CONTENT)
        assert savepoints.move(tx, savepoint_id, SavepointState.PRUNED, actor="o")
        assert savepoints.list_of_jobs(tx, ["jb_1"]) == []


def test_the_newest_and_the_young_savepoints_are_kept(store: Database) -> None:
    ids = [new_id("sp") for _ in range(4)]
    with store.write("test") as tx:
        for savepoint_id in ids:
            place = f"/p/{savepoint_id}"
            savepoints.insert_savepoint(
                tx, savepoint_id, "jb_1", version=1, run="r", place=place, actor="o"
            )
        for savepoint_id in ids[:3]:
            savepoints.move(tx, savepoint_id, SavepointState.VERIFIED, actor="o", content=CONTENT)
        old = savepoints.list_old(tx, "jb_1", kept=2, seconds=-1.0)
        young = savepoints.list_old(tx, "jb_1", kept=2, seconds=60.0)
        found = savepoints.list_at(tx, [old[0].place, "/elsewhere"])

    # The newest is still being copied.
    assert [each.id for each in old] == ids[:1]
    assert young == []
    assert found == ids[:1]


def test_a_broken_savepoint_at_the_end_of_a_run_is_kept(store: Database) -> None:
    """Without it, the savepoint before it would count as the last state of the run."""
    ids = [new_id("sp") for _ in range(3)]
    states = [SavepointState.VERIFIED, SavepointState.BROKEN, SavepointState.BROKEN]
    with store.write("test") as tx:
        for savepoint_id, state in zip(ids, states, strict=True):
            savepoints.insert_savepoint(
                tx, savepoint_id, "jb_1", version=1, run="r", place="/p", actor="o"
            )
            savepoints.move(tx, savepoint_id, state, actor="o")
        old = savepoints.list_old(tx, "jb_1", kept=1, seconds=-1.0)

    assert [each.id for each in old] == ids[1:2]


def test_a_run_without_a_kept_savepoint_keeps_none(store: Database) -> None:
    ids = [new_id("sp") for _ in range(4)]
    verified, broken = SavepointState.VERIFIED, SavepointState.BROKEN
    with store.write("test") as tx:
        for savepoint_id, run in zip(ids, ["1", "1", "2", "3"], strict=True):
            savepoints.insert_savepoint(
                tx, savepoint_id, "jb_1", version=1, run=run, place="/p", actor="o"
            )
            state = broken if savepoint_id == ids[1] else verified
            savepoints.move(tx, savepoint_id, state, actor="o")
        old = savepoints.list_old(tx, "jb_1", kept=2, seconds=-1.0)

    assert [each.id for each in old] == ids[:2]


def test_the_decisions_of_a_job_are_read_from_a_time_on_without_their_manifests(
    store: Database,
) -> None:
    with store.write("test") as tx:
        job = insert_job(tx)
        spec = VersionSpec(
            written={},
            manifest={},
            description="",
            query_fingerprint="q",
            configuration_fingerprint="c",
            session=JobSession(name="s", spec=SessionSpec()),
            queries=[],
        )
        for version in (1, 2, 3):
            jobs.insert_version(
                tx,
                job,
                spec,
                version=version,
                query_id="u",
                decision=JobDecision.START_CLEAN,
                reason="new",
                deployment_id="dp_1",
            )
        is_first = job_versions.c.version == 1
        tx.execute(update(job_versions).where(is_first).values(created_at=clock(-7200)))
    with store.read() as tx:
        since = read_clock(tx.connection) - timedelta(hours=1)
        found = jobs.list_decisions(tx, job.id, since, 10)
        assert [(each.version, each.revision) for each in found] == [(3, 3), (2, 2)]
        assert [each.version for each in jobs.list_decisions(tx, job.id, since, 1)] == [3]
    assert not hasattr(found[0], "spec")


def test_plans_expire(store: Database) -> None:
    plan = DeploymentPlan(state_location="/state")
    with store.write("test") as tx:
        deployment_id = job_changes.insert_deployment(tx, "o", JobAction.DEPLOY, plan, actor="test")
        deployment = job_changes.lock_deployment(tx, deployment_id)
        assert deployment is not None
        job_changes.move_deployment(tx, deployment, DeploymentState.PLANNED, actor="o")
        assert not job_changes.has_old_plan(tx, 60.0)
        assert job_changes.has_old_plan(tx, -1.0)
        job_changes.expire_plans(tx, -1.0, actor="n")
        expired = job_changes.get_deployment(tx, deployment_id)

    assert expired is not None
    assert expired.state is DeploymentState.EXPIRED


def test_history_deletes_ended_deployments_and_keeps_live_ones(store: Database) -> None:
    with store.write("test") as tx:
        ended_id, (change_id,) = deploy(tx, "a")
        live_id, _changes = deploy(tx, "b")
        walk(tx, change_id, ChangeStep.STOPPED, ChangeStep.VERIFIED, ChangeStep.APPLIED)
        nothing = {"deployments": 0, "operations": 0, "runs": 0, "jobs": 0}
        assert history.delete_jobs(tx, 60.0, 10) == nothing
        assert history.delete_jobs(tx, -1.0, 10) == nothing | {"deployments": 1}
        assert job_changes.get_deployment(tx, ended_id) is None
        assert job_changes.get(tx, change_id) is None
        assert job_changes.get_deployment(tx, live_id) is not None
        assert jobs.find(tx, "o", "a") is not None
