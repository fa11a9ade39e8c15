"""A moto server in the test process: it serves S3 and EMR Serverless, but executes no job run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto.emrserverless import models
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

REGION = "eu-central-1"
_ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{_ACCOUNT}:role/headrace-driver"


@dataclass(frozen=True, slots=True)
class Aws:
    """An account with one bucket and one EMR Serverless application."""

    endpoint_url: str
    application_id: str
    results: str
    """Results location in the bucket."""

    def emr(self) -> Any:
        """Return boto3's client of EMR Serverless."""
        return _client("emr-serverless", self.endpoint_url)

    def profile(self, **changes: Any) -> dict[str, Any]:
        """Return the settings of a profile that starts drivers in the application."""
        return {
            "backend": "emr-serverless",
            "application_id": self.application_id,
            "execution_role_arn": ROLE,
            "region": REGION,
            "endpoint_url": self.endpoint_url,
            **changes,
        }

    def start(self, name: str, *, days_old: int = 0) -> str:
        """Start a job run without a launcher; return its id."""
        response = self.emr().start_job_run(
            applicationId=self.application_id,
            executionRoleArn=ROLE,
            name=name,
            jobDriver={"sparkSubmit": {"entryPoint": "s3://b/x.py", "entryPointArguments": ["1"]}},
        )
        self._moto_job_run(response["jobRunId"]).created_at -= timedelta(days=days_old)
        return str(response["jobRunId"])

    def job_runs(self) -> list[dict[str, Any]]:
        """Return the full descriptions of all job runs, oldest first."""
        emr = self.emr()
        job_runs = models.emrserverless_backends[_ACCOUNT][REGION].job_runs
        return [
            emr.get_job_run(applicationId=self.application_id, jobRunId=run.id)["jobRun"]
            for run in job_runs.get(self.application_id, [])
        ]

    def live_names(self) -> list[str]:
        """Return the names of the job runs that have not ended."""
        ended = {"SUCCESS", "FAILED", "CANCELLED"}
        return [run["name"] for run in self.job_runs() if run["state"] not in ended]

    def set_state(self, job_run_id: str, state: str, details: str = "") -> None:
        """Make EMR Serverless report this state for a job run."""
        run = self._moto_job_run(job_run_id)
        run.state, run.state_details = state, details

    def _moto_job_run(self, job_run_id: str) -> models.JobRun:
        backend = models.emrserverless_backends[_ACCOUNT][REGION]
        return backend.get_job_run(self.application_id, job_run_id)


@contextmanager
def moto_server() -> Iterator[str]:
    """Yield the address of a server; this process and its children get credentials for it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("AWS_"):
                patch.delenv(name)
        # Ignore the configuration of the developer who runs the tests.
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        # Users of another object store set this variable for the node and its drivers.
        patch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{port}")
        # New job runs stay in this state. By default, moto ends them at once.
        patch.setattr(models, "JOB_STATUS", "RUNNING")
        # An earlier test may have opened the file system without credentials.
        S3FileSystem.clear_instance_cache()
        try:
            yield f"http://{host}:{port}"
        finally:
            S3FileSystem.clear_instance_cache()
            server.stop()


def account(endpoint_url: str) -> Aws:
    """Create an application and a bucket on a server."""
    emr, s3 = _client("emr-serverless", endpoint_url), _client("s3", endpoint_url)
    application = emr.create_application(name="headrace", releaseLabel="emr-7.9.0", type="SPARK")
    bucket = f"headrace-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    return Aws(endpoint_url, application["applicationId"], f"s3://{bucket}/results")


def _client(service: str, endpoint_url: str) -> Any:
    return boto3.client(service, region_name=REGION, endpoint_url=endpoint_url)
