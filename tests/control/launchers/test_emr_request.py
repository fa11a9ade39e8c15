"""Tests of the StartJobRun request for a driver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.validate import ParamValidator

from headrace.config.profiles import EmrServerlessProfile
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.emr_serverless import (
    build_job_run,
    check_nodes_are_reachable,
    remote_bootstrap,
)
from headrace.control.launchers.remote_artifacts import RemoteArtifacts
from headrace.errors import LaunchFailed
from headrace.model.ids import new_id
from headrace.model.messages import Bootstrap

ARTIFACTS = RemoteArtifacts(
    entry="s3://b/drivers/1/entry.py",
    package="s3://b/drivers/1/headrace.zip",
    bootstrap="s3://b/handoff/x",
)


def launch(
    *,
    conf: dict[str, str] | None = None,
    profile_conf: dict[str, str] | None = None,
    bootstrap: dict[str, Any] | None = None,
    **profile: Any,
) -> LaunchRequest:
    session_id = new_id("se")
    defaults = {
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
        bootstrap=Bootstrap.model_validate({**defaults, **(bootstrap or {})}),
        profile=EmrServerlessProfile(
            application_id="00f1abcdefgh1234",
            execution_role_arn="arn:aws:iam::123456789012:role/driver",
            conf=profile_conf or {},
            **profile,
        ),
        log=Path("unused"),
    )


def properties(request: LaunchRequest) -> dict[str, str]:
    job_run = build_job_run(request, ARTIFACTS)
    [defaults] = job_run["configurationOverrides"]["applicationConfiguration"]
    assert defaults["classification"] == "spark-defaults"
    spark_defaults: dict[str, str] = defaults["properties"]
    return spark_defaults


def test_a_request_is_valid_by_the_service_model_of_aws() -> None:
    client = boto3.client(
        "emr-serverless", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    shape = client.meta.service_model.operation_model("StartJobRun").input_shape
    job_run = build_job_run(launch(log_uri="s3://logs"), ARTIFACTS)
    report = ParamValidator().validate(job_run, shape)
    assert not report.has_errors(), report.generate_report()
    token = shape.members["clientToken"].metadata
    assert len(job_run["clientToken"]) <= token["max"]
    assert re.fullmatch(token["pattern"], job_run["clientToken"])
    tag = shape.members["tags"]
    for key, value in job_run["tags"].items():
        assert re.fullmatch(tag.key.metadata["pattern"], key)
        assert re.fullmatch(tag.value.metadata["pattern"], value)


def test_the_master_and_ui_port_are_left_to_the_service_unless_the_profile_sets_them() -> None:
    request = launch(conf={"spark.app.name": "x"})
    bootstrap = remote_bootstrap(request)
    assert bootstrap.conf == {"spark.app.name": "x"}
    assert bootstrap.token == "secret"
    assert properties(request) == {"spark.app.name": "x"}
    set_by_profile = launch(conf={"spark.ui.port": "4050"}, profile_conf={"spark.ui.port": "4050"})
    assert remote_bootstrap(set_by_profile).conf == {"spark.ui.port": "4050"}


def test_configuration_that_looks_like_a_secret_is_in_the_bootstrap_only() -> None:
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
    assert remote_bootstrap(request).conf["spark.sql.catalog.pg.password"] == "p"


def test_env_and_python_of_the_profile_become_configuration_of_the_service() -> None:
    request = launch(env={"TZ": "UTC"}, python="./environment/bin/python")
    assert properties(request) == {
        "spark.emr-serverless.driverEnv.TZ": "UTC",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": "./environment/bin/python",
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "./environment/bin/python",
        "spark.executorEnv.PYSPARK_PYTHON": "./environment/bin/python",
    }


def test_python_files_of_the_session_follow_the_package() -> None:
    request = launch(conf={"spark.submit.pyFiles": "s3://b/a.py,s3://b/b c.zip"})
    submit = build_job_run(request, ARTIFACTS)["jobDriver"]["sparkSubmit"]
    files = f"{ARTIFACTS.package},s3://b/a.py,s3://b/b c.zip"
    assert submit["sparkSubmitParameters"] == f"--py-files '{files}'"
    assert "spark.submit.pyFiles" not in remote_bootstrap(request).conf
    assert "spark.submit.pyFiles" not in properties(request)


@pytest.mark.parametrize("node", ["http://127.0.0.1:8040", "http://[::1]:1", "http://localhost:1"])
def test_a_node_with_only_loopback_addresses_is_refused(node: str) -> None:
    with pytest.raises(LaunchFailed, match=rf"{re.escape(node)}\. Set http\.advertise"):
        check_nodes_are_reachable(launch(bootstrap={"nodes": [node]}))
    check_nodes_are_reachable(launch(bootstrap={"nodes": [node, "http://headrace.internal:8040"]}))
