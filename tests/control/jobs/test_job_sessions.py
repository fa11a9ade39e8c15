"""Sessions of jobs whose configuration differs."""

from __future__ import annotations

import pytest
from tests.support.deployed_job import DeployedJob
from tests.support.simulated_jobs import HOLD

from headrace.store.jobs import job_changes

MEMORY = "spark.executor.memory"


def test_a_session_that_a_user_has_opened_is_not_replaced(deployed_job: DeployedJob) -> None:
    job = deployed_job
    session = job.node.session(name="jobs-default", conf={MEMORY: "2g"})
    refused = job.begin_plan()
    shown = job.node.http.get(f"/api/v1/sessions/{session}").json()

    assert refused.status_code == 400
    [error] = refused.json()["problems"]
    assert error["code"] == "session_conflict"
    assert MEMORY in error["message"]
    assert shown["state"] != "closing"


def test_a_start_is_refused_while_another_job_uses_the_session(deployed_job: DeployedJob) -> None:
    job = deployed_job
    job.deploy(**{"spark-properties": {MEMORY: "1g"}})
    job.act("stop")
    job.manifest["name"] = "other"
    job.deploy(**{"spark-properties": {MEMORY: "2g"}})
    refused = job.node.http.post("/api/v1/jobs/job/start", json={})
    job.act("stop")
    job.manifest["name"] = "job"
    started = job.act("start", clean=False)

    assert refused.status_code == 409
    assert refused.json()["code"] == "session_conflict"
    assert "other" in refused.json()["detail"]
    assert started["step"] == "applied"


def test_a_change_that_waits_in_vain_for_its_session_is_undone(
    deployed_job: DeployedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = deployed_job
    job.deploy()
    held = job.node.submit(f"SELECT '{HOLD}'", session="jobs-default")["id"]
    # The change has waited for an hour when it finds the session in use.
    monkeypatch.setattr(job_changes, "seconds_in_step", lambda _tx, _change_id: 3600.0)
    failed = job.deploy(**{"spark-properties": {MEMORY: "2g"}})

    assert failed["step"] == "failed"
    assert failed["failure"]["code"] == "session_conflict"
    assert job.show()["state"] == "running"
    assert job.node.http.get(f"/api/v1/statements/{held}").json()["state"] == "running"
