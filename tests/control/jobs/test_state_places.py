"""State locations: whatever their spelling, two owners cannot overwrite each other's manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.deployed_job import DeployedJob
from tests.support.in_process_node import InProcessNode

from headrace.control.jobs.drafts import PlanRequest
from headrace.control.jobs.planning import JobPlanner
from headrace.control.places import owner_folder
from headrace.deploy.problems import SourceText
from headrace.errors import InvalidLocation, InvalidManifests


def test_a_second_owner_cannot_deploy_a_job_of_the_same_name_to_the_same_place(
    deployed_job: DeployedJob, tmp_path: Path
) -> None:
    deployed_job.deploy()
    (tmp_path / "link").symlink_to(tmp_path)
    planner = JobPlanner(deployed_job.node.node.context)
    for spelling in (deployed_job.state, f"file://{tmp_path}/link/x/../state/"):
        request = PlanRequest(
            manifests=[SourceText("job.yaml", json.dumps(deployed_job.manifest))],
            definitions=[SourceText("definitions.sql", deployed_job.definitions)],
            state_location=spelling,
        )
        with pytest.raises(InvalidManifests) as caught:
            planner.begin("another owner", request, actor="another owner")

        [problem] = caught.value.problems
        assert problem["code"] == "state_location_in_use"
        assert "overwrite each other's manifests" in problem["message"]
        assert "--state-location" in problem["hint"]


@pytest.mark.parametrize("spelling", ["{jobs}", "{jobs}/{other}", "file://{link}/{other}/deeper"])
def test_an_owner_cannot_deploy_to_the_place_of_the_jobs_of_others(
    node: InProcessNode, tmp_path: Path, spelling: str
) -> None:
    context = node.node.context
    jobs = context.settings.jobs_location
    (tmp_path / "link").symlink_to(jobs)
    other = owner_folder("another owner")

    def plan(owner: str, location: str) -> str:
        request = PlanRequest(manifests=[], state_location=location)
        return JobPlanner(context).begin(owner, request, actor=owner)

    location = spelling.format(jobs=jobs, other=other, link=tmp_path / "link")
    with node.expect_no_changes(), pytest.raises(InvalidLocation, match="keeps the jobs"):
        plan("ada", location)
    # The place of the owner itself may be named.
    assert plan("ada", f"{jobs}/{owner_folder('ada')}")


def test_a_job_is_deployed_again_when_its_state_location_is_spelled_differently(
    deployed_job: DeployedJob, tmp_path: Path
) -> None:
    deployed_job.deploy()
    checkpoints = deployed_job.running_checkpoints()
    deployed_job.state = f"FILE://{tmp_path}/./state/"
    [planned] = deployed_job.plan()["jobs"]
    deployed_job.state = f"{tmp_path}/STATE"

    assert planned["decision"] == "none"
    assert deployed_job.running_checkpoints() == checkpoints
    refused = deployed_job.begin_plan().json()
    assert refused["problems"][0]["code"] == "state_location_changed"
