"""Lists of jobs and deployments: how they read the store."""

from __future__ import annotations

import pytest
from sqlalchemy import event
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.model.deployment import ChangeRecord, DeploymentPlan, JobAction
from headrace.model.ids import new_id
from headrace.model.job import JobDecision
from headrace.store.jobs import job_changes, jobs

_OWNER = LOCAL_OWNER
_RECORD = ChangeRecord(
    action=JobAction.DEPLOY, decision=JobDecision.START_CLEAN, reason="The job is new."
)


def _deploy(node: InProcessNode, count: int) -> tuple[str, list[str]]:
    """Insert a deployment of new jobs. Return its id, and the names of the jobs."""
    plan = DeploymentPlan(state_location="/state")
    names = sorted(new_id("j") for _ in range(count))
    with node.database.write("test") as tx:
        deployment_id = job_changes.insert_deployment(
            tx, _OWNER, JobAction.DEPLOY, plan, actor="test"
        )
        for name in names:
            place = f"/state/{name}"
            job = jobs.insert_job(tx, _OWNER, name, place, state_place=place, actor=_OWNER)
            job_changes.insert_change(tx, deployment_id, job, _RECORD, actor="test")
    return deployment_id, names


def _count_queries(node: InProcessNode, path: str) -> int:
    """Return the number of queries for changes that a list makes."""
    queries: list[str] = []

    def collect(_connection: object, _cursor: object, text: str, *_: object) -> None:
        queries.append(text)

    event.listen(node.database._readers, "before_cursor_execute", collect)
    try:
        assert node.http.get(path).status_code == 200
    finally:
        event.remove(node.database._readers, "before_cursor_execute", collect)
    # Background tasks read the other tables.
    return sum("FROM job_changes" in text for text in queries)


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/deployments"])
def test_a_list_reads_the_changes_of_all_rows_in_one_query(
    start_node: StartNode, path: str
) -> None:
    node = start_node(lease={"sweep": "1h"})
    for _ in range(4):
        _deploy(node, 3)

    assert _count_queries(node, path) == 1


def test_a_list_names_the_deployment_that_changes_each_job(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h"})
    deployments = dict(_deploy(node, count) for count in (2, 0, 1))

    listed = node.http.get("/api/v1/jobs").json()["items"]

    assert {(job["deployment"], job["name"]) for job in listed} == {
        (deployment, name) for deployment, names in deployments.items() for name in names
    }
