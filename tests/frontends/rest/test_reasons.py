"""`reason` and `reason_code` of statements, streams and jobs."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import RunningQuery

from headrace.model.deployment import ChangeRecord, DeploymentPlan, JobAction
from headrace.model.failure import Failure
from headrace.model.job import JobDecision
from headrace.model.lifecycle import JobState, StatementState, StreamState
from headrace.model.reasons import ReasonCode
from headrace.model.statement import Progress
from headrace.store.jobs import job_changes, jobs
from headrace.store.tables import jobs as jobs_table


def reason_of(node: InProcessNode, statement: str) -> tuple[str | None, str | None]:
    shown = node.statement(statement)
    return shown["reason_code"], shown["reason"]


def test_a_statement_says_what_is_awaited_until_it_has_succeeded(node: InProcessNode) -> None:
    session, driver = node.start_session()
    statement = str(node.submit(session=session)["id"])
    assert reason_of(node, statement)[0] == ReasonCode.DRIVER
    driver.claim()
    text = "A driver has claimed it, and Spark has not reported a stage yet."
    assert reason_of(node, statement) == (ReasonCode.NO_STAGE, text)
    driver.report_start(statement)
    text = "Spark has not reported a stage yet."
    assert reason_of(node, statement) == (ReasonCode.NO_STAGE, text)
    counts = dict.fromkeys(Progress.model_fields, 0) | {"tasks_done": 3, "tasks_total": 1200}
    driver.report_progress({statement: Progress(**counts)})
    text = "3 of 1,200 tasks done, 0 running."
    assert reason_of(node, statement) == (ReasonCode.TASKS, text)
    node.http.post(f"/api/v1/statements/{statement}/cancel")
    text = "It is being cancelled: the driver has not confirmed it yet."
    assert reason_of(node, statement) == (ReasonCode.CANCELLING, text)
    driver.report_end(statement, StatementState.CANCELLED)
    assert reason_of(node, statement) == (ReasonCode.CANCELLED, "Cancelled on request.")


@pytest.mark.parametrize(
    ("error", "code"),
    [("execution_error", ReasonCode.FAILED), ("driver_lost", ReasonCode.DRIVER_LOST)],
)
def test_a_failed_statement_has_the_message_of_its_error(
    node: InProcessNode, error: str, code: ReasonCode
) -> None:
    session, driver = node.start_session()
    statement = str(node.submit(session=session)["id"])
    driver.claim()
    failure = Failure(code=error, message="It broke at jdbc:x://u:secret@h/d.")
    driver.report_end(statement, StatementState.FAILED, failure=failure)
    found, text = reason_of(node, statement)
    assert found == code
    assert text is not None
    assert text.startswith("It broke at")
    assert "secret" not in text


def test_a_stream_counts_its_retries(node: InProcessNode) -> None:
    options = "OPTIONS ('headrace.retry.max.attempts' = '7')"
    for query, most in ((RunningQuery(node), "∞"), (RunningQuery(node, options=options), "7")):
        assert node.stream(query.id)["reason_code"] is None
        error = Failure(code="execution_error", message="Kafka refused the connection.")
        query.report(
            StreamState.BACKING_OFF, failures=4, delay_seconds=60.0, retry_seconds=32.0, error=error
        )
        shown = node.stream(query.id)
        assert shown["reason_code"] == ReasonCode.RETRY
        begin, _, end = shown["reason"].partition(" in ")
        assert begin == f"Retry 4 of {most}"
        assert end.endswith(" s: Kafka refused the connection.")
        [item] = [
            each
            for each in node.http.get("/api/v1/streams").json()["items"]
            if each["id"] == query.id
        ]
        assert item["reason"].startswith(begin)


def test_a_job_names_the_step_of_its_change_its_failure_and_how_it_starts(
    start_node: StartNode,
) -> None:
    # No node continues the change.
    node = start_node(lease={"sweep": "1h"})
    record = ChangeRecord(
        action=JobAction.DEPLOY, decision=JobDecision.START_CLEAN, reason="The job is new."
    )
    with node.database.write("test.job") as tx:
        plan = DeploymentPlan(state_location="/state")
        deployment = job_changes.insert_deployment(
            tx, LOCAL_OWNER, JobAction.DEPLOY, plan, actor="test"
        )
        job = jobs.insert_job(tx, LOCAL_OWNER, "clicks", "/s", state_place="/s", actor="test")
        job_changes.insert_change(tx, deployment, job, record, actor="test")

    def show() -> tuple[str | None, str | None]:
        shown = node.http.get("/api/v1/jobs/clicks").json()
        [listed] = node.http.get("/api/v1/jobs").json()["items"]
        assert (listed["reason_code"], listed["reason"]) == (shown["reason_code"], shown["reason"])
        return shown["reason_code"], shown["reason"]

    text = "A change of the job is in progress (deploy): it has not begun to stop the old queries."
    assert show() == (ReasonCode.CHANGE, text)
    failure = Failure(code="job_failed", message="No batch was committed.")
    for state, error, expected in (
        (JobState.RUNNING, None, (None, None)),
        (JobState.FAILED, failure, (ReasonCode.FAILED, "No batch was committed.")),
        (
            JobState.STOPPED,
            None,
            (
                ReasonCode.STOPPED,
                "Stopped. `headrace job start clicks` starts it from its latest state.",
            ),
        ),
    ):
        with node.database.write("test.state") as tx:
            values = {"state": state, "failure": error, "change_id": None}
            tx.execute(update(jobs_table).where(jobs_table.c.id == job.id).values(**values))
        assert show() == expected
