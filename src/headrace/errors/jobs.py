"""Errors of jobs and deployments."""

from __future__ import annotations

from headrace.errors.base import HeadraceError
from headrace.errors.refusals import Conflict, InvalidRequest, NotFound


class JobNotFound(NotFound):
    """The job does not exist."""

    code = "job_not_found"


class DeploymentNotFound(NotFound):
    """The deployment does not exist."""

    code = "deployment_not_found"


class VersionNotFound(NotFound):
    """The job has no such version."""

    code = "version_not_found"


class RunNotFound(NotFound):
    """The run does not exist."""

    code = "run_not_found"


class RunStateConflict(Conflict):
    """The state of the run does not allow the action."""

    code = "run_state_conflict"


class InvalidManifests(InvalidRequest):
    """The manifests have errors."""

    code = "invalid_manifests"


class JobNameTaken(Conflict):
    """Another job has the name, or keeps its state in the same place."""

    code = "job_name_taken"


class JobBusy(Conflict):
    """Another deployment is changing the job."""

    code = "job_busy"


class SessionConflict(Conflict):
    """The session of the job has another configuration, and cannot be replaced."""

    code = "session_conflict"


class JobStateConflict(Conflict):
    """The state of the job does not allow the action."""

    code = "job_state_conflict"


class PlanNotApplicable(Conflict):
    """The plan cannot be applied."""

    code = "plan_not_applicable"


class PlanOutdated(Conflict):
    """A job has changed since the plan was made."""

    code = "plan_outdated"


class JobStateMissing(Conflict):
    """The job has no state to continue from."""

    code = "job_state_missing"


class SavepointBroken(HeadraceError):
    """Files of a savepoint are missing or altered."""

    code = "savepoint_broken"
