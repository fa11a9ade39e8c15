"""Which jobs, views and streams a plan lets a driver analyse, and what the plan says about them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.deployed_job import DeployedJob

from headrace.model.job_messages import BrokenReader, ComparedColumns

LOAD = {"name": "load", "sql": "SELECT value, ts FROM numbers", "target-table": "orders"}
DAILY = {
    "name": "daily",
    "schedule": "manual",
    "sql": "SELECT\n  sum(value) AS value FROM Orders",
    "target-table": "totals",
}
WEEKLY = {
    "name": "weekly",
    "schedule": "manual",
    "script": "SELECT 1;\n  SELECT max(value) FROM shop.totals",
}
OTHER = {"name": "other", "schedule": "manual", "sql": "SELECT 1 AS x", "target-table": "others"}


def _plan(job: DeployedJob, *manifests: dict[str, Any]) -> dict[str, Any]:
    files = [{"path": f"{each['name']}.yaml", "text": json.dumps(each)} for each in manifests]
    body = {
        "manifests": files,
        "definitions": [{"path": "d.sql", "text": "CREATE STREAM numbers FROM rate"}],
        "state_location": job.state,
    }
    answer = job.node.http.post("/api/v1/deployments", json=body)
    assert answer.status_code == 201, answer.text
    return job._wait(answer.json()["id"], {"planned", "rejected"})


def _deploy(job: DeployedJob, *manifests: dict[str, Any]) -> None:
    planned = _plan(job, *manifests)
    assert planned["state"] == "planned", planned
    job.begin_apply(planned)
    assert job._wait(planned["id"], {"applied", "failed"})["state"] == "applied"


@pytest.fixture
def deployed(deployed_job: DeployedJob) -> DeployedJob:
    _deploy(deployed_job, LOAD, DAILY, WEEKLY, OTHER)
    return deployed_job


def _changed(manifest: dict[str, Any], sql: str) -> dict[str, Any]:
    return manifest | {"sql": sql}


def test_readers_of_a_changed_target_are_analysed_and_the_readers_of_theirs(
    deployed: DeployedJob,
) -> None:
    assert deployed.drivers.comparisons == []
    _plan(deployed, _changed(LOAD, "SELECT value FROM numbers"))

    [task] = deployed.drivers.comparisons
    [writer] = task.writers
    assert (writer.name, [texts.target for texts in writer.after]) == ("load", [["orders"]])
    assert [reader.name for reader in task.readers] == ["daily", "weekly"]
    [script] = task.readers[1].texts
    assert script.statements == ["SELECT 1", "\n  SELECT max(value) FROM shop.totals"]


def test_batch_jobs_of_a_plan_are_analysed_although_they_are_unchanged(
    deployed: DeployedJob,
) -> None:
    _plan(deployed, OTHER)

    [task] = deployed.drivers.comparisons
    assert (task.writers, [reader.name for reader in task.readers]) == ([], ["other"])


def test_the_plan_names_what_breaks_and_where(deployed: DeployedJob) -> None:
    dropped = BrokenReader(
        reader=0, cause="load", table="orders", column="value", old_type="bigint", line=2, offset=7
    )
    retyped = dropped.model_copy(update={"new_type": "string", "line": None, "offset": None})
    stale = BrokenReader(reader=1, message="The column value cannot be resolved.")
    deployed.drivers.compared = ComparedColumns(
        broken=[dropped, retyped, stale], notes=["job x was not analysed"]
    )
    planned = _plan(deployed, _changed(LOAD, "SELECT ts FROM numbers"))

    assert planned["state"] == "planned"
    assert planned["breaking"][0] == {
        "kind": "job",
        "name": "daily",
        "table": "orders",
        "column_name": "value",
        "cause": "load",
        "message": "column value of orders no longer exists after the change of load",
        "line": 2,
        "column": 7,
    }
    assert [(each["name"], each["message"], each["line"]) for each in planned["breaking"][1:]] == [
        (
            "daily",
            "column value of orders changes from bigint to string by the change of load",
            None,
        ),
        ("weekly", "The column value cannot be resolved.", None),
    ]
    assert "job x was not analysed" in planned["notes"]
    job = deployed.node.http.get("/api/v1/jobs/load").json()
    assert job["version"] == 1


@pytest.mark.parametrize(
    "report",
    [
        ComparedColumns(broken=[BrokenReader(reader=9, cause="load")]),
        ComparedColumns(broken=[BrokenReader(reader=0, cause="a stranger")]),
    ],
    ids=["unknown reader", "unknown cause"],
)
def test_a_report_about_other_things_is_not_believed(
    deployed: DeployedJob, report: ComparedColumns
) -> None:
    deployed.drivers.compared = report
    planned = _plan(deployed, OTHER)

    assert planned["breaking"] == []
    [note] = [note for note in planned["notes"] if "not analysed" in note]
    assert note.endswith("something else than what its task was.")


def test_a_plan_says_that_nothing_was_analysed_if_the_driver_fails(deployed: DeployedJob) -> None:
    deployed.drivers.refused.add("columns")
    planned = _plan(deployed, OTHER)

    assert planned["state"] == "planned"
    [note] = [note for note in planned["notes"] if "not analysed" in note]
    assert note.endswith("The test refuses columns.")


def test_a_plan_analyses_a_bounded_number_of_readers(
    deployed: DeployedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.jobs.downstream._MAX_READERS", 1)
    planned = _plan(deployed, _changed(LOAD, "SELECT ts FROM numbers"))

    [task] = deployed.drivers.comparisons
    assert [reader.name for reader in task.readers] == ["daily"]
    assert "1 of 2 jobs, views and streams were not analysed." in planned["notes"]
