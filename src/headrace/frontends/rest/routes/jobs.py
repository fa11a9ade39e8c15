"""`/jobs` and `/deployments`: plan and apply manifests, show and control jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.control.jobs.drafts import PlanRequest, SourceText
from headrace.frontends.http.api_route import AllOwners, ApiRoute, Limit, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.job_schemas import (
    DeploymentBody,
    DeploymentPage,
    JobBody,
    JobPage,
    PlanRequestBody,
    RollbackRequestBody,
    StartRequestBody,
    VersionPage,
)
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.serializers import deployment_body, job_body, version_body

JobRef = Annotated[str, Path(description="name or id of the job", max_length=100)]
DeploymentRef = Annotated[str, Path(description="id of the deployment", max_length=100)]

router = APIRouter(tags=["jobs"], route_class=ApiRoute)


@router.post(
    "/deployments", status_code=201, response_model=DeploymentBody, responses=problems(409, 415)
)
def plan_jobs(request: Request, caller: Authenticated, body: PlanRequestBody) -> Response:
    """Plan what a deployment of manifests would do. Nothing is changed.

    The state of the answer is `checking` while drivers analyse the manifests; then `planned`, or
    `rejected` with all errors. Errors of the YAML are reported at once.
    """
    plan = PlanRequest(
        manifests=[SourceText(file.path, file.text) for file in body.manifests],
        template=None
        if body.template is None
        else SourceText(body.template.path, body.template.text),
        definitions=[SourceText(file.path, file.text) for file in body.definitions],
        variables=body.variables,
        profile=body.profile,
        state_location=body.state_location,
        py_files=body.py_files,
        prune=body.prune,
        owner=body.owner,
    )
    return json_response(deployment_body(node_of(request).jobs.plan(caller, plan)), 201)


@router.post(
    "/deployments/{deployment}/apply",
    status_code=202,
    response_model=DeploymentBody,
    responses=problems(404, 409),
)
def apply_plan(request: Request, caller: Authenticated, deployment: DeploymentRef) -> Response:
    """Apply a plan exactly as it is shown. It is refused if a job has changed since."""
    status = node_of(request).jobs.apply(caller, deployment)
    return json_response(deployment_body(status), 202)


@router.get("/deployments", response_model=DeploymentPage)
def list_deployments(
    request: Request,
    caller: Authenticated,
    limit: Annotated[int, Query(ge=1, le=100, description="largest number of items")] = 20,
    all_owners: AllOwners = False,
) -> Response:
    """List the last deployments and plans, newest first."""
    found = node_of(request).jobs.list_deployments(caller, limit, all_owners=all_owners)
    return json_response(DeploymentPage(items=[deployment_body(status) for status in found]))


@router.get("/deployments/{deployment}", response_model=DeploymentBody, responses=problems(404))
def show_deployment(request: Request, caller: Authenticated, deployment: DeploymentRef) -> Response:
    """Show a deployment: its plan, and the step of each job."""
    return json_response(deployment_body(node_of(request).jobs.get_deployment(caller, deployment)))


@router.get("/jobs", response_model=JobPage)
def list_jobs(request: Request, caller: Authenticated, all_owners: AllOwners = False) -> Response:
    """List all jobs by name."""
    found = node_of(request).jobs.list_jobs(caller, all_owners=all_owners)
    return json_response(JobPage(items=[job_body(status) for status in found]))


@router.get("/jobs/{name}", response_model=JobBody, responses=problems(404, 409))
def show_job(request: Request, caller: Authenticated, name: JobRef) -> Response:
    """Show a job with its deployed version and its savepoints."""
    node = node_of(request)
    status = node.jobs.get_job(caller, name)
    return json_response(job_body(status, node.job_runs.get_queue(caller, status.job.id)))


@router.get("/jobs/{name}/versions", response_model=VersionPage, responses=problems(404, 409))
def list_versions(
    request: Request,
    caller: Authenticated,
    name: JobRef,
    limit: Limit = 100,
) -> Response:
    """List the versions of a job, newest first, with decision and reason."""
    found = node_of(request).jobs.list_versions(caller, name, limit)
    return json_response(VersionPage(items=[version_body(version) for version in found]))


TakesSavepoint = Annotated[bool, Query(description="Whether the state of the job is copied.")]

_ACTION_RESPONSES = problems(404, 409)
_OPTION_RESPONSES = problems(404, 409, 415)


@router.post(
    "/jobs/{name}/stop",
    status_code=202,
    response_model=DeploymentBody,
    responses=_ACTION_RESPONSES,
)
def stop_job(
    request: Request, caller: Authenticated, name: JobRef, savepoint: TakesSavepoint = True
) -> Response:
    """Stop a job with a savepoint."""
    status = node_of(request).jobs.stop(caller, name, takes_savepoint=savepoint)
    return json_response(deployment_body(status), 202)


@router.post(
    "/jobs/{name}/savepoint",
    status_code=202,
    response_model=DeploymentBody,
    responses=_ACTION_RESPONSES,
)
def take_savepoint(request: Request, caller: Authenticated, name: JobRef) -> Response:
    """Copy the state of a job. A running job stops for the copy, and then continues."""
    return json_response(deployment_body(node_of(request).jobs.savepoint(caller, name)), 202)


@router.post(
    "/jobs/{name}/start",
    status_code=202,
    response_model=DeploymentBody,
    responses=_OPTION_RESPONSES,
)
def start_job(
    request: Request, caller: Authenticated, name: JobRef, body: StartRequestBody
) -> Response:
    """Start a stopped or failed job from its latest state, or without state."""
    status = node_of(request).jobs.start(caller, name, clean=body.clean)
    return json_response(deployment_body(status), 202)


@router.post(
    "/jobs/{name}/rollback",
    status_code=202,
    response_model=DeploymentBody,
    responses=_OPTION_RESPONSES,
)
def roll_back_job(
    request: Request, caller: Authenticated, name: JobRef, body: RollbackRequestBody
) -> Response:
    """Return to an earlier version, with the state that it had when it stopped."""
    status = node_of(request).jobs.roll_back(caller, name, body.version)
    return json_response(deployment_body(status), 202)


@router.delete(
    "/jobs/{name}",
    status_code=202,
    response_model=DeploymentBody,
    responses=_ACTION_RESPONSES,
)
def delete_job(
    request: Request, caller: Authenticated, name: JobRef, savepoint: TakesSavepoint = True
) -> Response:
    """Stop a job with a savepoint, and remove it and its manifest. The savepoints stay."""
    status = node_of(request).jobs.delete(caller, name, takes_savepoint=savepoint)
    return json_response(deployment_body(status), 202)
