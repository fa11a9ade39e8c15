"""Clients of the cluster managers on which spark-submit starts applications.

This module has the clients of Spark's standalone master and of YARN. The client of Kubernetes, in
`kubernetes.py`, runs spark-submit instead of calling an HTTP API.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode

from headrace.errors import BackendUnreachable, LaunchFailed
from headrace.text.readable import describe_duration

if TYPE_CHECKING:
    import urllib3


_CALL_SECONDS = 5.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.2
_YARN_APPS = "/ws/v1/cluster/apps"
_ENDED = {"FINISHED", "FAILED", "KILLED"}
_MESSAGE_LENGTH = 1000
"""Longest diagnostics or error body in a message: YARN appends the end of a container's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One application, as its cluster manager reports it."""

    id: str
    alive: bool
    message: str
    """State and reason from the cluster manager."""
    log: str | None = None
    """URL of the driver's log if the cluster keeps it."""


class ClusterManager(Protocol):
    """Client of one cluster manager. Every call may raise BackendUnreachable."""

    def find(self, name: str) -> Application | None:
        """Return the application with this launch name, a live one if there are several.

        Returns None if the cluster manager has no application of this name.
        """

    def kill(self, application: Application) -> None:
        """Request the end of an application, without waiting for it."""


def stop_application(cluster: ClusterManager, name: str) -> None:
    """Kill the applications with this launch name and wait until the cluster reports their end.

    Raises BackendUnreachable, and LaunchFailed if an application does not end in time.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    killed = set()
    while (application := cluster.find(name)) is not None and application.alive:
        if application.id not in killed:
            cluster.kill(application)
            killed.add(application.id)
        if time.monotonic() > deadline:
            raise LaunchFailed(
                f"The application {application.id} has not ended within"
                f" {describe_duration(_STOP_SECONDS)} of being killed."
                f" Its state: {application.message}."
            )
        time.sleep(_POLL_SECONDS)


class Standalone:
    """Client of Spark's standalone master. The launch name is the name of the application."""

    def __init__(self, address: str) -> None:
        """Use the master's web UI at an address such as `http://master:8080`."""
        self._web = ManagerHttp(address)

    def find(self, name: str) -> Application | None:
        state = self._web.get_json("/json/")
        for app in [*state["activeapps"], *state["completedapps"]]:
            if app["name"] == name:
                return Application(
                    id=app["id"], alive=app["state"] not in _ENDED, message=app["state"]
                )
        return None

    def kill(self, application: Application) -> None:
        self._web.request(
            "POST",
            "/app/kill/",
            body=urlencode({"id": application.id, "terminate": "true"}),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            redirect=False,
        )


class Yarn:
    """Client of YARN's ResourceManager. The launch name is a tag of the application."""

    def __init__(self, address: str) -> None:
        """Use the ResourceManager's REST API at an address such as `http://rm:8088`."""
        self._web = ManagerHttp(address)

    def find(self, name: str) -> Application | None:
        response = self._web.get_json(f"{_YARN_APPS}?applicationTags={quote(name)}")
        apps = (response.get("apps") or {}).get("app", [])
        applications = [_yarn_application(app) for app in apps]
        return max(applications, key=lambda application: application.alive, default=None)

    def kill(self, application: Application) -> None:
        self._web.request(
            "PUT",
            f"{_YARN_APPS}/{application.id}/state",
            body=json.dumps({"state": "KILLED"}),
            headers={"Content-Type": "application/json"},
        )


class ManagerHttp:
    """HTTP client of a cluster manager."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        # Most nodes have no cluster manager, and the import takes a tenth of a second.
        import urllib3  # noqa: PLC0415

        self._pool = urllib3.PoolManager(retries=False, timeout=_CALL_SECONDS)
        self._error = urllib3.exceptions.HTTPError

    def request(self, method: str, path: str, **content: Any) -> urllib3.BaseHTTPResponse:
        """Send a request and return the response.

        Raises BackendUnreachable if there is no response, or if its status is an error.
        """
        url = f"{self._address}{path}"
        try:
            response = self._pool.request(method, url, **content)
        except self._error as error:
            raise BackendUnreachable(f"{self._address} does not answer: {error}") from error
        if response.status >= 400:
            body = response.data.decode(errors="replace").strip()[:_MESSAGE_LENGTH]
            raise BackendUnreachable(f"{method} {url} failed with status {response.status}: {body}")
        return response

    def get_json(self, path: str) -> Any:
        """Return the parsed JSON response of a GET request. Raises BackendUnreachable."""
        response = self.request("GET", path, headers={"Accept": "application/json"})
        try:
            return response.json()
        except ValueError as error:
            raise BackendUnreachable(
                f"The response of {self._address}{path} is not JSON: {error}"
            ) from error


def _yarn_application(app: dict[str, str]) -> Application:
    state = app["state"]
    # The state of a failed application is FINISHED if the application itself reported the failure.
    outcome = app["finalStatus"] if state == "FINISHED" else state
    diagnostics = app.get("diagnostics", "").strip()
    return Application(
        id=app["id"],
        alive=state not in _ENDED,
        message=f"{outcome}: {diagnostics}" if diagnostics else outcome,
        log=app.get("amContainerLogs"),
    )


_KUBERNETES_SECONDS = 60.0
_PHASE = re.compile(r"^\s*phase: (\w+)", re.MULTILINE)
# Printed by org.apache.spark.deploy.k8s.submit.K8SSparkSubmitOperation.
_NOT_FOUND = "Application not found."
_ENDED_PHASES = {"Succeeded", "Failed"}


class Kubernetes:
    """The driver pods in one namespace of a cluster. Implements `ClusterManager`."""

    def __init__(
        self, spark_submit: Path, master: str, namespace: str, environment: Mapping[str, str]
    ) -> None:
        self._spark_submit = spark_submit
        self._master = master
        self._namespace = namespace
        self._environment = environment

    def find(self, name: str) -> Application | None:
        pod = f"{self._namespace}:{pod_name(name)}"
        output = self._run("--status", pod)
        phase = _PHASE.search(output)
        if phase is None:
            if _NOT_FOUND in output:
                return None
            raise BackendUnreachable(
                f"{self._master} did not report the state of the pod {pod}:"
                f" {output[-_MESSAGE_LENGTH:]}"
            )
        return Application(id=pod, alive=phase[1] not in _ENDED_PHASES, message=phase[1])

    def kill(self, application: Application) -> None:
        self._run("--kill", application.id)

    def _run(self, option: str, pod: str) -> str:
        """Run spark-submit for a pod, given as `namespace:name`, and return its output."""
        command = [str(self._spark_submit), "--master", self._master, option, pod]
        try:
            process = subprocess.run(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_KUBERNETES_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendUnreachable(f"{self._master} does not answer: {error}") from error
        return process.stdout.decode(errors="replace")


def pod_name(name: str) -> str:
    """Return the name of the driver pod of a launch. Kubernetes does not allow underscores."""
    return name.replace("_", "-")


def pod_namespace(conf: Mapping[str, str]) -> str:
    """Return the namespace in which the pods of a profile run."""
    return conf.get("spark.kubernetes.namespace", "default")
