"""Plans: what the store alone decides about jobs."""

from __future__ import annotations

import pytest
from tests.support.deployed_job import DeployedJob
from tests.support.waiting import wait_until

from headrace.model.job_messages import JobProblem

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


_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.parametrize("is_running", [True, False])
def test_a_job_keeps_its_state_store_and_the_plan_says_when_another_one_applies(
    deployed_job: DeployedJob, is_running: bool
) -> None:
    job = deployed_job
    job.deploy()
    job.advance(1)
    if not is_running:
        job.act("stop")
    # As a version that does not translate `state.backend` deployed it, and as this one does.
    properties = {_STATE_STORE: "org.example.RocksDB", "spark.sql.streaming.minBatchesToRetain": 5}
    planned = job.plan_change(**{"spark-properties": properties})

    [changed] = planned["jobs"]
    assert changed["decision"] == "restart-from-savepoint"
    [note] = changed["notes"]
    assert note.startswith(f"{_STATE_STORE}: the change has no effect yet")
    assert note.endswith("headrace job start job --clean")
    # A clean start takes the new value.
    job.apply(planned)
    [clean] = job.plan_change(sql="SELECT value + 1 AS value FROM numbers")["jobs"]
    assert (clean["decision"], clean["notes"]) == ("restart-clean", [])


FLINK = "-- From Flink.\nCREATE TABLE out (\n  at TIMESTAMP(3));\n"


@pytest.mark.parametrize(
    ("position", "place"), [((3, 15), (5, 15)), ((None, None), (3, 1)), ((99, 1), (3, 1))]
)
def test_a_refused_definition_is_reported_at_its_place_with_what_to_write_on_spark(
    deployed_job: DeployedJob,
    position: tuple[int | None, int | None],
    place: tuple[int, int],
) -> None:
    job = deployed_job
    job.definitions += f"\n{FLINK}"
    job.manifest["sql"] = "SELECT value FROM numbers JOIN out"
    line, column = position
    job.drivers.problems = [
        JobProblem(
            code="syntax_error", message="Syntax error at '('.", setup=0, line=line, column=column
        )
    ]
    plan = job.plan()

    assert plan["state"] == "rejected"
    [error] = plan["errors"]
    assert (error["path"], error["line"], error["column"]) == ("definitions.sql", *place)
    assert error["message"] == "Syntax error at '('."
    assert "TIMESTAMP in place of TIMESTAMP(3)" in error["hint"]


def test_a_refused_statement_of_a_script_is_reported_at_its_place_in_the_manifest(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.text = (
        "name: job\nscript: |\n  CREATE STREAM s FROM rate;\n  SET a.b = 1;\n"
        "  SAVE STREAM s TO noop\n"
    )
    job.drivers.problems = [JobProblem(code="refused", message="No.", setup=0, line=1, column=5)]

    [error] = job.plan()["errors"]
    assert (error["path"], error["message"]) == ("job.yaml", "job: No.")
    assert (error["line"], error["column"]) == (4, 7)


def test_a_refused_expectation_is_reported_at_its_key_in_the_manifest(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.text = (
        "name: job\ntarget-table: files\nsql: SELECT value FROM numbers\n"
        "expect:\n  - {name: a, condition: missing > 0}\n"
    )
    job.drivers.problems = [JobProblem(code="invalid_expectation", message="No.")]

    [error] = job.plan()["errors"]
    assert (error["path"], error["line"], error["column"]) == ("job.yaml", 5, 3)


def test_expectations_are_refused_while_the_driver_is_of_an_older_version(
    deployed_job: DeployedJob,
) -> None:
    job = deployed_job
    job.deploy()
    job.drivers.checks_rows = False
    job.manifest["expect"] = [{"name": "a", "condition": "value > 0"}]

    [error] = job.plan()["errors"]
    assert error["code"] == "upgrade_unfinished"
    assert "does not know `expect`" in error["message"]
