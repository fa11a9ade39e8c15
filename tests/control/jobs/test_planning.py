"""Plans: what the store alone decides about jobs."""

from __future__ import annotations

from tests.support.deployed_job import DeployedJob
from tests.support.waiting import wait_until

BATCH = {"sql": None, "code": "execution_output = spark.range(2)", "target-table": "files"}


def test_nothing_is_planned_for_a_batch_job_that_has_written_its_rows(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy(**BATCH)
    job.drivers.finish_query("job")
    wait_until(lambda: job.show()["state"] == "stopped", what="the batch job has ended")

    [planned] = job.plan()["jobs"]
    assert planned["decision"] == "none"
    assert "headrace job start job --clean" in planned["reason"]
    [changed] = job.plan_change(trigger="once")["jobs"]
    assert changed["decision"] != "none"


def test_a_streaming_job_whose_sources_have_ended_continues_from_its_state(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy(trigger="available now")
    job.drivers.finish_query("job")
    wait_until(lambda: job.show()["state"] == "stopped", what="the query has ended")

    [planned] = job.plan()["jobs"]
    assert planned["decision"] == "resume-latest"


def test_a_plan_without_prune_names_the_deployed_jobs_without_a_manifest(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    plan = job.plan_change(name="other")

    [note] = plan["notes"]
    assert "names these deployed jobs: job (running)." in note
    assert "--prune" in note
    assert [each["name"] for each in plan["jobs"]] == ["other"]
