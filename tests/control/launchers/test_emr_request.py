"""What a driver's launch asks of EMR Serverless."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.validate import ParamValidator

from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.emr_request import bootstrap_to_send, job_run, refuse_unreachable
from headrace.control.launchers.remote_artifacts import RemoteArtifacts
from headrace.errors import LaunchFailed
from headrace.model.ids import new_id
from headrace.model.messages import Bootstrap
from headrace.settings import Profile

BAGGAGE = RemoteArtifacts(
    entry="s3://b/drivers/1/entry.py",
    package="s3://b/drivers/1/headrace.zip",
    bootstrap="s3://b/handover/x",
)


def launch(
    *,
    conf: dict[str, str] | None = None,
    conf_of_profile: dict[str, str] | None = None,
    bootstrap: dict[str, Any] | None = None,
    **profile: Any,
) -> LaunchRequest:
    session_id = new_id("se")
    known = {
        "session_id": session_id,
        "epoch": 12,
        "token": "secret",
        "nodes": ["http://10.0.0.1:8040"],
        "conf": {"spark.master": "local[*]", "spark.ui.port": "0", **(conf or {})},
        "results": "s3://b",
        "inline_limit": 1,
        "chunk_limit": 1,
        "lease_seconds": 1,
        "renew_seconds": 1,
        "orphan_seconds": 1,
    }
    return LaunchRequest(
        name=f"headrace-{session_id}-12",
        bootstrap=Bootstrap.model_validate({**known, **(bootstrap or {})}),
        profile=Profile(
            backend="emr-serverless",
            application_id="00f1abcdefgh1234",
            execution_role_arn="arn:aws:iam::123456789012:role/driver",
            conf=conf_of_profile or {},
            **profile,
        ),
        log=Path("unused"),
    )


def properties(request: LaunchRequest) -> dict[str, str]:
    asked = job_run(request, BAGGAGE)
    [defaults] = asked["configurationOverrides"]["applicationConfiguration"]
    assert defaults["classification"] == "spark-defaults"
    found: dict[str, str] = defaults["properties"]
    return found


def test_a_request_is_one_that_aws_takes() -> None:
    """By its own description; the lengths and patterns are those of real names."""
    client = boto3.client(
        "emr-serverless", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    shape = client.meta.service_model.operation_model("StartJobRun").input_shape
    asked = job_run(launch(log_uri="s3://logs"), BAGGAGE)
    report = ParamValidator().validate(asked, shape)
    assert not report.has_errors(), report.generate_report()
    token = shape.members["clientToken"].metadata
    assert len(asked["clientToken"]) <= token["max"]
    assert re.fullmatch(token["pattern"], asked["clientToken"])
    tag = shape.members["tags"]
    for key, value in asked["tags"].items():
        assert re.fullmatch(tag.key.metadata["pattern"], key)
        assert re.fullmatch(tag.value.metadata["pattern"], value)


def test_what_belongs_to_the_service_is_left_to_it() -> None:
    request = launch(conf={"spark.app.name": "x"})
    sent = bootstrap_to_send(request)
    assert sent.conf == {"spark.app.name": "x"}
    assert sent.token == "secret"
    assert properties(request) == {"spark.app.name": "x"}
    by_profile = launch(conf={"spark.ui.port": "4050"}, conf_of_profile={"spark.ui.port": "4050"})
    assert bootstrap_to_send(by_profile).conf == {"spark.ui.port": "4050"}


def test_what_looks_like_a_secret_reaches_the_driver_alone() -> None:
    request = launch(
        conf={
            "spark.sql.catalog.pg.password": "p",
            "spark.hadoop.fs.s3a.access.key": "k",
            "spark.executor.memory": "4g",
            "spark.emr-serverless.driverEnv.TOKENIZERS": "x",
        }
    )
    assert properties(request) == {
        "spark.executor.memory": "4g",
        "spark.emr-serverless.driverEnv.TOKENIZERS": "x",
    }
    assert bootstrap_to_send(request).conf["spark.sql.catalog.pg.password"] == "p"


def test_env_and_python_become_the_services_own_settings() -> None:
    request = launch(env={"TZ": "UTC"}, python="./environment/bin/python")
    assert properties(request) == {
        "spark.emr-serverless.driverEnv.TZ": "UTC",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": "./environment/bin/python",
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "./environment/bin/python",
        "spark.executorEnv.PYSPARK_PYTHON": "./environment/bin/python",
    }


def test_python_files_of_the_session_come_behind_the_package() -> None:
    request = launch(conf={"spark.submit.pyFiles": "s3://b/a.py,s3://b/b c.zip"})
    submit = job_run(request, BAGGAGE)["jobDriver"]["sparkSubmit"]
    files = f"{BAGGAGE.package},s3://b/a.py,s3://b/b c.zip"
    assert submit["sparkSubmitParameters"] == f"--py-files '{files}'"
    assert "spark.submit.pyFiles" not in bootstrap_to_send(request).conf
    assert "spark.submit.pyFiles" not in properties(request)


@pytest.mark.parametrize("node", ["http://127.0.0.1:8040", "http://[::1]:1", "http://localhost:1"])
def test_a_node_that_only_its_host_reaches_is_refused(node: str) -> None:
    with pytest.raises(LaunchFailed, match=rf"{re.escape(node)}\. Set http\.advertise"):
        refuse_unreachable(launch(bootstrap={"nodes": [node]}))
    refuse_unreachable(launch(bootstrap={"nodes": [node, "http://headrace.internal:8040"]}))
