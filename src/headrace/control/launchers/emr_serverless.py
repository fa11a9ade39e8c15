"""Launcher of the backend `emr-serverless`: each driver is a job run of an application.

The driver's files are sent through the results location (`remote_artifacts.py`). A node uses the
AWS credentials that boto3 finds; a driver uses the execution role of its profile.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import shlex
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.exceptions import ConnectionError as ConnectionFailed

from headrace.config.profiles import EmrServerlessProfile, Profile
from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    LauncherHost,
    LaunchRequest,
)
from headrace.control.launchers.remote_artifacts import (
    DriverPackage,
    HandoffDeletion,
    RemoteArtifacts,
    build_driver_package,
    upload_artifacts,
)
from headrace.errors import BackendUnreachable, HeadraceError, LaunchFailed
from headrace.files import locations
from headrace.grammar.masking import HIDDEN_KEYS
from headrace.model.messages import Bootstrap
from headrace.model.session import DriverLease
from headrace.text.readable import describe_duration

_TIMEOUT_MINUTES = 7 * 24 * 60
"""Longest timeout that AWS accepts. Without a timeout, AWS ends a batch run after twelve hours."""
_DRIVER_ENV = "spark.emr-serverless.driverEnv."
_EXECUTOR_ENV = "spark.executorEnv."
_SERVICE_PREFIX = "spark.emr-serverless."
_PY_FILES = "spark.submit.pyFiles"
_SET_BY_SERVICE = {"spark.master", "spark.ui.port"}
_SECRET_KEY = re.compile(HIDDEN_KEYS)


def check_nodes_are_reachable(request: LaunchRequest) -> None:
    """Raise LaunchFailed if all node addresses are loopback addresses and the service is on AWS."""
    nodes = request.bootstrap.nodes
    service_is_local = _is_loopback(EmrServerlessProfile.of(request.profile).endpoint_url)
    if not service_is_local and all(_is_loopback(node) for node in nodes):
        raise LaunchFailed(
            f"Drivers on emr-serverless cannot reach this node at {', '.join(nodes)}."
            " Set http.advertise to an address that the network of the application can reach."
        )


def remote_bootstrap(request: LaunchRequest) -> Bootstrap:
    """Return the bootstrap without the configuration that EMR Serverless sets itself.

    A key that the service sets is kept if the profile sets it explicitly.
    """
    conf = {
        key: value
        for key, value in request.bootstrap.conf.items()
        if key != _PY_FILES and (key not in _SET_BY_SERVICE or key in request.profile.conf)
    }
    return request.bootstrap.model_copy(update={"conf": conf})


def build_job_run(request: LaunchRequest, artifacts: RemoteArtifacts) -> dict[str, Any]:
    """Return the arguments of StartJobRun.

    Everyone who may read job runs in AWS can read the arguments. Configuration whose key looks like
    a secret is therefore in the bootstrap only, from which the driver sets all its configuration.
    The rest is in the arguments as well, because some keys have an effect only before the JVM
    starts.
    """
    profile = EmrServerlessProfile.of(request.profile)
    bootstrap = remote_bootstrap(request)
    session_files = request.bootstrap.conf.get(_PY_FILES, "").split(",")
    py_files = [artifacts.package, *filter(None, session_files)]
    public_conf = {
        key: value
        for key, value in bootstrap.conf.items()
        if key.startswith(_SERVICE_PREFIX) or not _SECRET_KEY.search(key)
    }
    defaults = {
        "classification": "spark-defaults",
        "properties": {**_environment_conf(profile), **public_conf},
    }
    return {
        "applicationId": profile.application_id,
        "executionRoleArn": profile.execution_role_arn,
        "name": request.name,
        "clientToken": request.name,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": artifacts.entry,
                "entryPointArguments": ["--handoff", artifacts.bootstrap],
                "sparkSubmitParameters": shlex.join(["--py-files", ",".join(py_files)]),
            }
        },
        "configurationOverrides": {
            "applicationConfiguration": [defaults],
            **_monitoring(profile),
        },
        "executionTimeoutMinutes": _TIMEOUT_MINUTES,
        "tags": {
            "headrace:session": bootstrap.session_id,
            "headrace:epoch": str(bootstrap.epoch),
        },
    }


def _environment_conf(profile: Profile) -> dict[str, str]:
    """Return the configuration that passes `env` and `python` of a profile to the service."""
    conf = {f"{_DRIVER_ENV}{name}": value for name, value in profile.env.items()}
    if profile.python is not None:
        conf[f"{_DRIVER_ENV}PYSPARK_DRIVER_PYTHON"] = profile.python
        conf[f"{_DRIVER_ENV}PYSPARK_PYTHON"] = profile.python
        conf[f"{_EXECUTOR_ENV}PYSPARK_PYTHON"] = profile.python
    return conf


def _monitoring(profile: EmrServerlessProfile) -> dict[str, Any]:
    if profile.log_uri is None:
        return {}
    return {
        "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": profile.log_uri}},
    }


def _is_loopback(address: str | None) -> bool:
    host = urlsplit(address or "").hostname
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_ENDED = {"SUCCESS", "FAILED", "CANCELLED"}
_LIVE = ["SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING"]
_CANCEL_SECONDS = 60.0
_POLL_SECONDS = 1.0
_PAGE_SIZE = 50
_CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3}
)
_UNREACHABLE_ERRORS = (
    ConnectionFailed,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
# Error codes after which the same call can succeed later: throttling and expired credentials.
_TRANSIENT_CODES = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "RequestExpired",
    "ThrottlingException",
    "TooManyRequestsException",
    "UnrecognizedClientException",
}
_SERVER_ERRORS = 500


class EmrServerlessLauncher:
    """Starts, finds, polls and cancels job runs with boto3."""

    backend = "emr-serverless"

    def __init__(self, host: LauncherHost) -> None:
        self._folder = host.layout.submitted
        self._handoffs = HandoffDeletion()
        self._session = boto3.session.Session()
        self._clients: dict[tuple[str | None, str | None], Any] = {}
        self._lock = threading.Lock()

    def start(self, request: LaunchRequest) -> Handle:
        profile = EmrServerlessProfile.of(request.profile)
        if handle := self._find(request.name, profile, refusal=LaunchFailed):
            return handle
        check_nodes_are_reachable(request)
        artifacts = upload_artifacts(self._build_package(), remote_bootstrap(request), request.name)
        try:
            with _translate_errors("StartJobRun", refusal=LaunchFailed):
                client = self._client(profile.region, profile.endpoint_url)
                response = client.start_job_run(**build_job_run(request, artifacts))
        except HeadraceError:
            # The job run may have started in spite of the error: its driver then has no bootstrap.
            self._handoffs.run(locations.delete, artifacts.bootstrap)
            raise
        handle = self._handle(profile, response["jobRunId"], artifacts.bootstrap)
        _write_session_log(request, handle)
        return handle

    def find(self, name: str, profile: Profile) -> Handle | None:
        return self._find(name, EmrServerlessProfile.of(profile), refusal=BackendUnreachable)

    def poll(self, handle: Handle) -> DriverStatus:
        with _translate_errors("GetJobRun", refusal=BackendUnreachable):
            client = self._client_of(handle)
            try:
                run = client.get_job_run(**_run_ids(handle))["jobRun"]
            except client.exceptions.ResourceNotFoundException as error:
                return DriverStatus(alive=False, message=_error_text(error))
        state, details = run["state"], run.get("stateDetails")
        message = f"{state}: {details}" if details else state
        return DriverStatus(alive=state not in _ENDED, message=message, log=handle["log"])

    def kill(self, handle: Handle) -> None:
        # Remove the bootstrap first: a driver that has not read it yet can then never start.
        self._handoffs.run(locations.delete, handle["bootstrap"])
        if not self.poll(handle).alive:
            return
        refusal = self._cancel(handle)
        deadline = time.monotonic() + _CANCEL_SECONDS
        while (status := self.poll(handle)).alive:
            if refusal is not None:
                raise LaunchFailed(
                    f"EMR Serverless refused to cancel {_describe_run(handle)}: {refusal}"
                )
            if time.monotonic() > deadline:
                raise LaunchFailed(
                    f"EMR Serverless has not ended {_describe_run(handle)} within"
                    f" {describe_duration(_CANCEL_SECONDS)} of the cancel request: {status.message}"
                )
            time.sleep(_POLL_SECONDS)

    def exits(self) -> list[DriverExit]:
        return []

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        """Do nothing: no process of this host belongs to the driver."""

    def announce(self, addresses: list[str]) -> None:
        """Do nothing: drivers receive the node addresses in the answers to their renewals."""

    def _find(
        self, name: str, profile: EmrServerlessProfile, *, refusal: type[HeadraceError]
    ) -> Handle | None:
        """Return the handle of the newest live job run of this name, or None.

        Raises BackendUnreachable, and `refusal` if AWS refuses a call.
        """
        with _translate_errors("ListJobRuns", refusal=refusal):
            client = self._client(profile.region, profile.endpoint_url)
            pages = client.get_paginator("list_job_runs").paginate(
                applicationId=profile.application_id,
                states=_LIVE,
                PaginationConfig={"PageSize": _PAGE_SIZE},
            )
            try:
                runs = [run for page in pages for run in page["jobRuns"] if run.get("name") == name]
            except client.exceptions.ResourceNotFoundException:
                return None
            if not runs:
                return None
            newest = max(runs, key=lambda run: run["createdAt"])["id"]
            run = client.get_job_run(applicationId=profile.application_id, jobRunId=newest)
        *_, bootstrap = run["jobRun"]["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        return self._handle(profile, newest, bootstrap)

    def _cancel(self, handle: Handle) -> str | None:
        """Request the cancel of a job run; return the message of AWS if AWS refuses, else None.

        AWS also refuses to cancel a job run that has just ended, so a refusal is not yet an error.
        """
        try:
            with _translate_errors("CancelJobRun", refusal=LaunchFailed):
                self._client_of(handle).cancel_job_run(**_run_ids(handle))
        except LaunchFailed as error:
            return error.message
        return None

    def _build_package(self) -> DriverPackage:
        try:
            return build_driver_package(self._folder)
        except OSError as error:
            raise LaunchFailed(
                f"The zip of the driver's code could not be written to {self._folder}: {error}"
            ) from error

    def _handle(self, profile: EmrServerlessProfile, job_run_id: str, bootstrap: str) -> Handle:
        return {
            "backend": self.backend,
            "application_id": profile.application_id,
            "job_run_id": job_run_id,
            "region": profile.region,
            "endpoint_url": profile.endpoint_url,
            "bootstrap": bootstrap,
            "log": _log_location(profile, job_run_id),
        }

    def _client_of(self, handle: Handle) -> Any:
        return self._client(handle["region"], handle["endpoint_url"])

    def _client(self, region: str | None, endpoint_url: str | None) -> Any:
        """Return the client of a region and endpoint, created at its first use.

        Threads may share a client of boto3, but may not create clients from one session at once.
        """
        with self._lock:
            client = self._clients.get((region, endpoint_url))
            if client is None:
                client = self._session.client(
                    "emr-serverless", region_name=region, endpoint_url=endpoint_url, config=_CONFIG
                )
                self._clients[region, endpoint_url] = client
            return client


@contextlib.contextmanager
def _translate_errors(call: str, *, refusal: type[HeadraceError]) -> Iterator[None]:
    """Raise errors of boto3 as BackendUnreachable, or as `refusal` if AWS refuses the call."""
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_transient = (
            status >= _SERVER_ERRORS or error.response["Error"]["Code"] in _TRANSIENT_CODES
        )
        kind = BackendUnreachable if is_transient else refusal
        raise kind(f"EMR Serverless returned an error for {call}: {_error_text(error)}") from error
    except _UNREACHABLE_ERRORS as error:
        raise BackendUnreachable(f"EMR Serverless could not be called ({call}): {error}") from error
    except (BotoCoreError, ValueError) as error:
        raise refusal(f"EMR Serverless could not be called ({call}): {error}") from error


def _error_text(error: ClientError) -> str:
    details = error.response["Error"]
    return f"{details['Code']}: {details.get('Message', '')}"


def _run_ids(handle: Handle) -> dict[str, str]:
    return {"applicationId": handle["application_id"], "jobRunId": handle["job_run_id"]}


def _describe_run(handle: Handle) -> str:
    return f"job run {handle['job_run_id']} of application {handle['application_id']}"


def _log_location(profile: EmrServerlessProfile, job_run_id: str) -> str:
    """Return the S3 location of the driver's log, or the command that shows it if AWS keeps it."""
    application_id = profile.application_id
    if profile.log_uri is None:
        ids = f"--application-id {application_id} --job-run-id {job_run_id}"
        return f"aws emr-serverless get-dashboard-for-job-run {ids}"
    folder = f"applications/{application_id}/jobs/{job_run_id}/SPARK_DRIVER/"
    return f"{profile.log_uri.rstrip('/')}/{folder}"


def _write_session_log(request: LaunchRequest, handle: Handle) -> None:
    """Append the location of the driver's log to the log of the session."""
    # The job run has already started, so a full disk must not make the launch fail.
    with contextlib.suppress(OSError):
        request.log.parent.mkdir(parents=True, exist_ok=True)
        with request.log.open("a") as log:
            log.write(f"EMR Serverless: {_describe_run(handle)}. Its log: {handle['log']}\n")
