"""The calls of jobs and deployments, a part of the client of the HTTP API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

Json = dict[str, Any]


class RequestOptions(TypedDict, total=False):
    """The parts of a request beside method and path (`HttpRequest`)."""

    query: Mapping[str, str | int | None] | None
    body: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    timeout: float
    idempotent: bool
    accepts_errors: bool
    authenticated: bool


class JobCalls(ABC):
    """The calls of jobs and deployments. `headrace.client.http.Client` sends them."""

    @abstractmethod
    def _call(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Json:
        """Send a request and return the JSON object of its response."""

    def plan_jobs(self, request: Mapping[str, Any]) -> Json:
        """Plan a deployment of manifests. Return the deployment; its drivers may still check it."""
        return self._call("POST", "/api/v1/deployments", body=request, idempotent=False)

    def apply_plan(self, deployment: str) -> Json:
        """Apply a plan and return its deployment."""
        path = f"/api/v1/deployments/{quote_name(deployment)}/apply"
        return self._call("POST", path, idempotent=False)

    def deployment(self, deployment: str) -> Json:
        """Return a deployment by id."""
        return self._call("GET", f"/api/v1/deployments/{quote_name(deployment)}")

    def jobs(self) -> Json:
        """Return all jobs by name."""
        return self._call("GET", "/api/v1/jobs")

    def job(self, name: str) -> Json:
        """Return a job with its deployed version and its savepoints."""
        return self._call("GET", f"/api/v1/jobs/{quote_name(name)}")

    def job_versions(self, name: str, *, limit: int = 100) -> Json:
        """Return the versions of a job, newest first."""
        path = f"/api/v1/jobs/{quote_name(name)}/versions"
        return self._call("GET", path, query={"limit": limit})

    def act_on_job(self, name: str, action: str, options: Mapping[str, Any] | None = None) -> Json:
        """Start, copy or roll back a job. Return the deployment that does it."""
        path = f"/api/v1/jobs/{quote_name(name)}/{action}"
        return self._call("POST", path, body=options, idempotent=False)

    def stop_job(self, name: str, *, savepoint: bool = True) -> Json:
        """Stop a job. Return the deployment that does it."""
        path = f"/api/v1/jobs/{quote_name(name)}/stop"
        return self._call("POST", path, query={"savepoint": savepoint}, idempotent=False)

    def delete_job(self, name: str, *, savepoint: bool = True) -> Json:
        """Stop a job and remove it. Return the deployment that does it."""
        path = f"/api/v1/jobs/{quote_name(name)}"
        return self._call("DELETE", path, query={"savepoint": savepoint}, idempotent=False)


def quote_name(name: str) -> str:
    """Return a name or id as one step of a path."""
    return quote(name, safe="")
