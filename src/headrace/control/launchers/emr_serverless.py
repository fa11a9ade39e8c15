"""Drivers as job runs of an EMR Serverless application.

What a driver needs goes by the results location, see travelling.py. A node finds AWS's
credentials where boto3 looks for them; drivers act in the profile's execution role.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

from headrace.control.launchers.base import DriverExit, DriverStatus, Handle, LaunchRequest
from headrace.control.launchers.driver_package import DriverPackage, build_driver_package
from headrace.control.launchers.emr_request import bootstrap_to_send, job_run, refuse_unreachable
from headrace.control.launchers.remote_artifacts import upload_artifacts
from headrace.errors import BackendUnreachable, HeadraceError, LaunchFailed, ResultsUnavailable
from headrace.settings import Profile
from headrace.storage import locations

_LOG = logging.getLogger("headrace.launch")
_ENDED = {"SUCCESS", "FAILED", "CANCELLED"}
_LIVE = ["SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING"]
_CANCEL_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_PAGE = 50
_CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3}
)
_OUT_OF_REACH = (
    ConnectionFailed,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
# Of a request, or of credentials, that may be good again in a while.
_PASSING = {
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
    """Starts, finds, polls and cancels job runs by boto3."""

    backend = "emr-serverless"

    def __init__(self, home: Path) -> None:
        self._folder = home / "submitted"
        self._session = boto3.session.Session()
        self._clients: dict[tuple[str | None, str | None], Any] = {}
        self._lock = threading.Lock()

    def start(self, request: LaunchRequest) -> Handle:
        profile = request.profile
        if found := self._find(request.name, profile, LaunchFailed):
            return found
        refuse_unreachable(request)
        baggage = upload_artifacts(self._parcel(), bootstrap_to_send(request), request.name)
        try:
            with _asking("StartJobRun", LaunchFailed):
                client = self._client(profile.region, profile.endpoint_url)
                answer = client.start_job_run(**job_run(request, baggage))
        except HeadraceError:
            # If it did start, for all that, its driver finds nothing to start with.
            _remove(baggage.bootstrap)
            raise
        handle = self._handle(profile, answer["jobRunId"], baggage.bootstrap)
        _tell(request, handle)
        return handle

    def find(self, name: str, profile: Profile) -> Handle | None:
        return self._find(name, profile, BackendUnreachable)

    def poll(self, handle: Handle) -> DriverStatus:
        with _asking("GetJobRun", BackendUnreachable):
            client = self._client_of(handle)
            try:
                run = client.get_job_run(**_ids(handle))["jobRun"]
            except client.exceptions.ResourceNotFoundException as error:
                return DriverStatus(alive=False, words=_words(error))
        state, details = run["state"], run.get("stateDetails")
        words = f"{state}: {details}" if details else state
        return DriverStatus(alive=state not in _ENDED, words=words, log=handle["log"])

    def kill(self, handle: Handle) -> None:
        # First, so that a driver that has not begun yet never does.
        _remove(handle["bootstrap"])
        if not self.poll(handle).alive:
            return
        refusal = self._cancel(handle)
        deadline = time.monotonic() + _CANCEL_SECONDS
        while (status := self.poll(handle)).alive:
            if refusal is not None:
                raise LaunchFailed(f"EMR Serverless does not cancel {_named(handle)}: {refusal}")
            if time.monotonic() > deadline:
                raise LaunchFailed(
                    f"EMR Serverless has not ended {_named(handle)} within"
                    f" {_CANCEL_SECONDS:g} s of its cancel: {status.words}"
                )
            time.sleep(_LOOK_SECONDS)

    def exits(self) -> list[DriverExit]:
        return []

    def announce(self, addresses: list[str]) -> None:
        """Drivers learn from their renewals where nodes are."""

    def _find(self, name: str, profile: Profile, refused: type[HeadraceError]) -> Handle | None:
        with _asking("ListJobRuns", refused):
            client = self._client(profile.region, profile.endpoint_url)
            pages = client.get_paginator("list_job_runs").paginate(
                applicationId=profile.application_id,
                states=_LIVE,
                PaginationConfig={"PageSize": _PAGE},
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
        """AWS's words when it refuses: a run that has just ended cannot be cancelled either."""
        try:
            with _asking("CancelJobRun", LaunchFailed):
                self._client_of(handle).cancel_job_run(**_ids(handle))
        except LaunchFailed as error:
            return error.message
        return None

    def _parcel(self) -> DriverPackage:
        try:
            return build_driver_package(self._folder)
        except OSError as error:
            raise LaunchFailed(f"The driver's code could not be packed: {error}") from error

    def _handle(self, profile: Profile, job_run_id: str, bootstrap: str) -> Handle:
        return {
            "backend": self.backend,
            "application_id": profile.application_id,
            "job_run_id": job_run_id,
            "region": profile.region,
            "endpoint_url": profile.endpoint_url,
            "bootstrap": bootstrap,
            "log": _log(profile, job_run_id),
        }

    def _client_of(self, handle: Handle) -> Any:
        return self._client(handle["region"], handle["endpoint_url"])

    def _client(self, region: str | None, endpoint_url: str | None) -> Any:
        """boto3's clients may be shared by threads; making them takes a while, and a lock."""
        with self._lock:
            known = self._clients.get((region, endpoint_url))
            if known is None:
                known = self._session.client(
                    "emr-serverless", region_name=region, endpoint_url=endpoint_url, config=_CONFIG
                )
                self._clients[region, endpoint_url] = known
            return known


@contextlib.contextmanager
def _asking(call: str, refused: type[HeadraceError]) -> Iterator[None]:
    """AWS's errors as ours: BackendUnreachable, or `refused` when it said no."""
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        passing = status >= _SERVER_ERRORS or error.response["Error"]["Code"] in _PASSING
        kind = BackendUnreachable if passing else refused
        raise kind(f"EMR Serverless answers {call}: {_words(error)}") from error
    except _OUT_OF_REACH as error:
        raise BackendUnreachable(f"EMR Serverless cannot be asked for {call}: {error}") from error
    except (BotoCoreError, ValueError) as error:
        raise refused(f"EMR Serverless cannot be asked for {call}: {error}") from error


def _remove(bootstrap: str) -> None:
    """Where no driver has taken it."""
    try:
        locations.delete(bootstrap)
    except ResultsUnavailable as error:
        # Its token is good for an epoch that is over.
        _LOG.warning("a bootstrap stays behind: %s", error.message)


def _words(error: ClientError) -> str:
    told = error.response["Error"]
    return f"{told['Code']}: {told.get('Message', '')}"


def _ids(handle: Handle) -> dict[str, str]:
    return {"applicationId": handle["application_id"], "jobRunId": handle["job_run_id"]}


def _named(handle: Handle) -> str:
    return f"job run {handle['job_run_id']} of application {handle['application_id']}"


def _log(profile: Profile, job_run_id: str) -> str:
    """Where the driver's output is: a place in S3, or the command that shows it."""
    application_id = profile.application_id
    if profile.log_uri is None:
        ids = f"--application-id {application_id} --job-run-id {job_run_id}"
        return f"aws emr-serverless get-dashboard-for-job-run {ids}"
    place = f"applications/{application_id}/jobs/{job_run_id}/SPARK_DRIVER/"
    return f"{profile.log_uri.rstrip('/')}/{place}"


def _tell(request: LaunchRequest, handle: Handle) -> None:
    """Says in the session's log where the driver's is."""
    # The job runs already: it must not be lost for a full disk.
    with contextlib.suppress(OSError):
        request.log.parent.mkdir(parents=True, exist_ok=True)
        with request.log.open("a") as log:
            log.write(f"EMR Serverless: {_named(handle)}. Its log: {handle['log']}\n")
