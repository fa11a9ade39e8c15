"""Changes of jobs that fail: what the old version continues from, and how each change ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from tests.support.deployed_job import DeployedJob
from tests.support.waiting import wait_until

from headrace.control.jobs.job_changer import JobChanger
from headrace.control.jobs.job_queries import start_queries
from headrace.errors import LeaseLost
from headrace.model.deployment import JobVersion, OperationLease
from headrace.model.failure import Failure
from headrace.model.stream_query import DesiredQuery
from headrace.store.database import Tx

COUNT = "SELECT count(value) AS value FROM numbers"
BROKEN = Failure(code="user_code_failed", message="the new version is broken")


def fail_queries_with(text: str) -> Callable[[DesiredQuery], Failure | None]:
    """Return a function with which queries fail whose specification contains a text."""
    return lambda query: BROKEN if text in query.spec.model_dump_json() else None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"trigger": "7 seconds"}, id="configuration"),
        pytest.param({"sql": "SELECT value FROM numbers WHERE value > 7"}, id="query"),
    ],
)
def test_the_old_version_continues_in_the_run_of_a_version_that_has_written(
    deployed_job: DeployedJob, change: dict[str, str]
) -> None:
    job = deployed_job
    job.deploy(**{"on-query-change": "keep-compatible"})
    job.drivers.fail = fail_queries_with("7 SECONDS" if "trigger" in change else "value > 7")
    failed = job.deploy(**change)
    job.advance(2)

    assert failed["step"] == "failed"
    assert failed["decision"] == "restart-from-savepoint"
    assert [each["batches"] for each in failed["written"]] == [1]
    shown = job.show()
    assert (shown["state"], shown["version"]) == ("running", 1)
    assert job.drivers.skipped == []
    assert shown["last_batch"] == 4

    # The next change continues there too.
    job.drivers.fail = lambda _query: None
    job.deploy(sql="SELECT value FROM numbers", trigger="3 seconds")
    assert job.drivers.skipped == []
    assert job.show()["last_batch"] == 5


def test_a_batch_that_the_old_version_has_planned_proves_nothing(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy(**{"on-query-change": "keep-compatible"})
    before = job.show()["last_batch"]
    job.drivers.stops_in_batches = True
    planned = job.plan_change(sql="SELECT value FROM numbers WHERE value > 7")
    job.begin_apply(planned)
    # The sink has the rows of this batch, and skips it, so that the new query does not run.
    wait_until(lambda: job.show()["last_batch"] == before + 1, what="the batch is repeated")
    job.drivers.break_query("job", BROKEN)
    failed = job.await_end(planned)

    assert (failed["step"], failed["failure"]["code"]) == ("failed", BROKEN.code)
    job.advance(1)
    assert (job.show()["state"], job.show()["version"]) == ("running", 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"trigger": "7 seconds"}, id="configuration"),
        pytest.param({"sql": "SELECT value FROM numbers WHERE value > 7"}, id="query"),
    ],
)
def test_a_second_batch_proves_a_version_whose_first_was_planned(
    deployed_job: DeployedJob, change: dict[str, str]
) -> None:
    job = deployed_job
    job.deploy(**{"on-query-change": "keep-compatible"})
    before = job.show()["last_batch"]
    job.drivers.stops_in_batches = True
    planned = job.plan_change(**change)
    job.begin_apply(planned)
    wait_until(lambda: job.show()["last_batch"] == before + 1, what="the batch is repeated")
    job.advance(1)

    assert job.await_end(planned)["step"] == "applied"


def test_the_old_version_continues_in_its_own_run_after_a_clean_start(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(3)
    job.drivers.fail = fail_queries_with("count(value)")
    failed = job.deploy(sql=COUNT)

    assert failed["step"] == "failed"
    assert failed["decision"] == "restart-clean"
    assert job.drivers.skipped == []
    wait_until(lambda: job.show()["last_batch"] == 4, what="the old version continues")


def test_a_job_that_was_resumed_says_how_many_batches_it_has_written(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(9)
    job.act("stop")
    job.drivers.fail = fail_queries_with("numbers")
    failed = job.act("start", clean=False)

    assert failed["step"] == "failed"
    assert [each["batches"] for each in failed["written"]] == [1]
    assert job.show()["state"] == "stopped"


def test_a_savepoint_without_files_fails_if_the_job_has_committed_batches(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.drivers.checkpoints.clear()
    failed = job.deploy(trigger="2 seconds")

    assert failed["step"] == "failed"
    assert failed["failure"]["code"] == "job_state_missing"


@pytest.mark.parametrize("way_out", ["clean start", "changed query", "rollback"])
def test_a_job_whose_checkpoint_is_lost_can_begin_anew(
    deployed_job: DeployedJob, way_out: str
) -> None:
    job = deployed_job
    job.deploy(sql=COUNT)
    job.deploy(sql="SELECT value FROM numbers")
    job.act("stop", "?savepoint=false")
    job.drivers.checkpoints.clear()
    if way_out == "clean start":
        ended = job.act("start", clean=True)
    elif way_out == "rollback":
        ended = job.act("rollback", version=None)
    else:
        ended = job.deploy(sql=COUNT + " WHERE value > 1")

    assert (ended["step"], ended["failure"]) == ("applied", None)
    assert job.show()["state"] == "running"
    assert job.drivers.skipped == []


def test_the_old_version_continues_in_the_new_run_although_its_batches_are_not_reported(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.drivers.reports_batches = False
    job.drivers.fail = fail_queries_with("7 SECONDS")
    failed = job.deploy(trigger="7 seconds")
    job.drivers.reports_batches = True
    job.advance(2)

    assert (failed["step"], failed["written"]) == ("failed", [])
    assert job.drivers.skipped == []


def test_a_proven_change_keeps_its_version_if_its_last_step_fails(
    deployed_job: DeployedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = deployed_job
    job.deploy()
    monkeypatch.setattr("headrace.control.jobs.operation_runner._ERROR_SECONDS", 0.01)
    monkeypatch.setattr("headrace.control.jobs.change_steps.begin_pruning", fail_always)
    failed = job.deploy(trigger="2 seconds")

    assert (failed["step"], failed["failure"]["code"]) == ("failed", "internal_error")
    assert (job.show()["state"], job.show()["version"]) == ("running", 1)
    monkeypatch.undo()
    job.advance(3)
    job.deploy(trigger="3 seconds")
    assert job.drivers.skipped == []


def test_a_job_whose_state_cannot_be_copied_can_be_deleted(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy()
    job.drivers.refused = {"savepoint"}
    refused = job.act("stop")
    path = f"/api/v1/jobs/{job.manifest['name']}"
    response = job.node.http.delete(path, params={"savepoint": "false"})

    assert refused["step"] == "failed"
    assert response.status_code == 202
    wait_until(lambda: job.node.http.get(path).status_code == 404, what="the job is deleted")
    assert job.drivers.manifests == {}


def test_a_deletion_reports_a_manifest_that_stays(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy()
    job.drivers.refused = {"manifests"}
    deleted = job.node.http.delete("/api/v1/jobs/job").json()
    wait_until(
        lambda: (
            job.node.http.get(f"/api/v1/deployments/{deleted['id']}").json()["state"] == "failed"
        ),
        what="the deployment has failed",
    )
    [shown] = job.node.http.get(f"/api/v1/deployments/{deleted['id']}").json()["jobs"]

    assert shown["failure"]["code"] == "refused"
    assert job.node.http.get("/api/v1/jobs/job").status_code == 404
    assert len(job.drivers.manifests) == 1


def test_a_step_that_fails_again_and_again_ends_the_change(
    deployed_job: DeployedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = deployed_job
    job.deploy()
    monkeypatch.setattr("headrace.control.jobs.operation_runner._ERROR_SECONDS", 0.01)
    monkeypatch.setattr("headrace.control.jobs.change_steps.start_queries", fail_for_new_version)
    failed = job.deploy(trigger="2 seconds")

    assert failed["step"] == "failed"
    assert failed["failure"]["code"] == "internal_error"
    shown = job.show()
    assert (shown["state"], shown["deployment"]) == ("running", None)


def test_a_job_that_cannot_return_to_its_old_version_fails(
    deployed_job: DeployedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = deployed_job
    job.deploy()
    monkeypatch.setattr("headrace.control.jobs.operation_runner._ERROR_SECONDS", 0.01)
    monkeypatch.setattr("headrace.control.jobs.change_steps.start_queries", fail_always)
    failed = job.deploy(trigger="2 seconds")

    assert failed["step"] == "failed"
    assert job.show()["state"] == "failed"


def test_a_version_whose_session_is_closed_is_not_proven(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy()
    job.drivers.holds_batches = True
    planned = job.plan_change(trigger="2 seconds")
    path = f"/api/v1/deployments/{planned['id']}"
    assert job.node.http.post(f"{path}/apply").status_code == 202
    wait_until(
        lambda: job.node.http.get(path).json()["jobs"][0]["step"] == "started",
        what="the new version was started",
    )
    job.drivers.holds_batches = False
    job.node.http.delete("/api/v1/sessions/jobs-default")
    wait_until(lambda: job.node.http.get(path).json()["state"] == "failed", what="it is undone")
    [failed] = job.node.http.get(path).json()["jobs"]

    assert failed["failure"]["code"] == "stream_stopped"
    assert job.show()["state"] == "running"


def test_a_failed_job_stops_while_another_of_its_queries_runs(deployed_job: DeployedJob) -> None:
    job = deployed_job
    del job.manifest["sql"], job.manifest["target-table"], job.manifest["metadata-columns"]
    saves = [f"SAVE STREAM numbers TO noop IDENTIFIED BY {name};" for name in ("one", "two")]
    job.deploy(script="\n".join(saves))
    job.drivers.break_query("one", BROKEN)
    wait_until(lambda: job.show()["state"] == "failed", what="the job has failed")
    live = job.show()["queries"]
    stopped = job.act("stop")

    assert len(live) == 1
    assert stopped["step"] == "applied"
    assert job.show()["queries"] == []


def test_the_manifest_follows_a_clean_start(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy()
    [first] = job.drivers.manifests.values()
    job.act("stop")
    job.act("start", clean=True)
    [second] = job.drivers.manifests.values()

    assert "version: 1" in first
    assert "version: 2" in second


@pytest.mark.parametrize("deployed_job", [{"healthy_period": "100ms"}], indirect=True)
def test_queries_of_an_earlier_version_say_nothing_about_the_state(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    del job.manifest["sql"], job.manifest["target-table"], job.manifest["metadata-columns"]
    job.deploy(script="SAVE STREAM numbers TO noop IDENTIFIED BY one;")
    job.deploy(script="SAVE STREAM numbers TO noop IDENTIFIED BY two;")
    # The second version has not begun a batch.
    job.act("stop")
    job.drivers.holds_batches = True
    job.act("start", clean=True)
    stopped = job.act("stop")

    assert stopped["step"] == "applied"


def fail_always(*_arguments: object, **_options: object) -> None:
    raise ValueError("a fault of the program")


def fail_for_new_version(tx: Tx, version: JobVersion, *arguments: Any, **options: Any) -> Any:
    if version.revision > 1:
        fail_always()
    return start_queries(tx, version, *arguments, **options)


def test_a_change_with_a_step_of_a_newer_node_is_left_to_it(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy()
    context = job.node.node.context
    with context.database.write("test") as tx:
        # A newer node has replaced the constraint.
        tx.execute(text("PRAGMA ignore_check_constraints = ON"))
        change = "UPDATE job_changes SET step = 'archived', ended_at = NULL RETURNING id"
        change_id = tx.execute(text(change)).scalar_one()
        tx.execute(text("PRAGMA ignore_check_constraints = OFF"))
    lease = OperationLease(id="op_1", node_id=context.node_id, epoch=1)

    with pytest.raises(LeaseLost, match="archived"):
        JobChanger(context).advance(lease, change_id)
