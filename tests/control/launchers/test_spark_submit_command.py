"""Tests of the command and the configuration with which spark-submit starts a driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.launches import SECRET, make_request

from headrace.config.extras import install_command
from headrace.config.profiles import SparkSubmitProfile
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.remote_artifacts import build_driver_package
from headrace.control.launchers.spark_submit import build_command, build_conf, find_spark_home
from headrace.errors import LaunchFailed
from headrace.files.spark_files import format_properties

KUBERNETES = SparkSubmitProfile(
    master="k8s://https://cluster.example:6443",
    deploy_mode="cluster",
    python="/opt/python/bin/python",
    conf={
        "spark.kubernetes.container.image": "example/spark:4.1",
        "spark.kubernetes.namespace": "sql",
    },
)


def command_of(request: LaunchRequest, folder: Path) -> list[str]:
    driver_arguments = ["--handoff", "s3://b/handoff"]
    return build_command(
        request, folder / "properties", build_driver_package(folder), driver_arguments
    )


def test_a_driver_pod_has_name_label_namespace_and_image(tmp_path: Path) -> None:
    request = make_request(tmp_path, KUBERNETES)
    conf = build_conf(request)
    assert conf["spark.kubernetes.driver.pod.name"] == request.name.replace("_", "-")
    assert conf["spark.kubernetes.driver.label.headrace-launch"] == request.name
    assert conf["spark.kubernetes.namespace"] == "sql"
    assert conf["spark.kubernetes.container.image"] == "example/spark:4.1"
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert conf["spark.pyspark.python"] == "/opt/python/bin/python"


def test_the_command_names_the_owner_on_yarn_only(tmp_path: Path) -> None:
    yarn = SparkSubmitProfile(
        master="yarn", deploy_mode="cluster", cluster_url="http://h", run_as="owner"
    )
    for profile, is_named in ((yarn, True), (KUBERNETES, False)):
        arguments = command_of(replace(make_request(tmp_path, profile), run_as="ada"), tmp_path)
        assert ("--proxy-user" in arguments) is is_named
    named = command_of(replace(make_request(tmp_path, yarn), run_as="ada"), tmp_path)
    assert named[named.index("--proxy-user") + 1] == "ada"
    assert "--proxy-user" not in command_of(make_request(tmp_path, yarn), tmp_path)


def test_in_cluster_mode_the_command_sends_the_package_and_has_no_secret(tmp_path: Path) -> None:
    request = make_request(tmp_path, KUBERNETES)
    request.bootstrap.conf["spark.submit.pyFiles"] = "s3://b/session.py"
    arguments = command_of(request, tmp_path)
    assert arguments[0] == str(find_spark_home(KUBERNETES) / "bin" / "spark-submit")
    options = dict(zip(arguments[1::2], arguments[2::2], strict=False))
    assert options["--master"] == "k8s://https://cluster.example:6443"
    assert options["--deploy-mode"] == "cluster"
    assert arguments[-2:] == ["--handoff", "s3://b/handoff"]
    py_files = arguments[arguments.index("--py-files") + 1]
    assert py_files.endswith("/headrace.zip,s3://b/session.py")
    assert SECRET not in " ".join(arguments)
    properties = format_properties(build_conf(request))
    assert f"spark.hadoop.fs.s3a.secret.key={SECRET}\n" in properties


def test_a_session_cannot_move_its_driver_to_another_namespace(tmp_path: Path) -> None:
    request = make_request(tmp_path, KUBERNETES)
    request.bootstrap.conf["spark.kubernetes.namespace"] = "other"
    assert build_conf(request)["spark.kubernetes.namespace"] == "sql"


def test_spark_home_of_the_profile_overrides_pyspark(tmp_path: Path) -> None:
    profile = SparkSubmitProfile(env={"SPARK_HOME": "/opt/spark"})
    command = command_of(make_request(tmp_path, profile), tmp_path)
    assert command[0] == "/opt/spark/bin/spark-submit"


def test_a_missing_spark_is_reported_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(LaunchFailed) as raised:
        find_spark_home(SparkSubmitProfile())
    assert install_command("spark") in str(raised.value.hint)
