"""Tests of the launcher `spark-submit` beyond the contract suite, test_launcher_contract.py.

Most have a script in the place of spark-submit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.clusters import yarn_cluster_profile
from tests.support.launches import make_host, make_request, write_spark_interpreter
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from tests.support.yarn import YarnCluster

from headrace.config.profiles import SparkSubmitProfile, parse_profile
from headrace.control.launchers import remote_artifacts
from headrace.control.launchers.spark_submit import SparkSubmitLauncher
from headrace.errors import BackendUnreachable
from headrace.files import locations


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Return a Spark whose spark-submit ends with exit status 1."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return tmp_path / "spark"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the results location hang. Return the locations in which a deletion has begun."""
    resume, begun = threading.Event(), []

    def hang(results: str, _name: str) -> None:
        begun.append(results)
        resume.wait(30)

    monkeypatch.setattr(locations, "delete_handoffs", hang)
    monkeypatch.setattr(remote_artifacts, "_SECONDS", 0.2)
    yield begun
    resume.set()


def test_a_results_location_that_hangs_delays_no_sweep_and_a_kill_for_a_short_time_only(
    tmp_path: Path, spark_home: Path, begun: list[str]
) -> None:
    results = str(tmp_path / "results")
    launcher = SparkSubmitLauncher(make_host(tmp_path))
    port = free_port()
    profile = SparkSubmitProfile(
        master="yarn",
        deploy_mode="cluster",
        cluster_url=f"http://127.0.0.1:{port}",
        env={"SPARK_HOME": str(spark_home)},
    )
    handle = launcher.start(make_request(tmp_path, profile))
    wait_until(launcher.exits, what="the exit is reported")
    assert begun == []
    start = time.monotonic()
    with pytest.raises(BackendUnreachable):
        launcher.kill(handle)
    assert begun == [results]
    assert time.monotonic() - start < 20


def test_a_driver_on_the_host_of_the_node_needs_no_results_location_for_its_end(
    tmp_path: Path, spark_home: Path, begun: list[str]
) -> None:
    launcher = SparkSubmitLauncher(make_host(tmp_path))
    profile = SparkSubmitProfile(master="spark://host:7077", env={"SPARK_HOME": str(spark_home)})
    handle = launcher.start(make_request(tmp_path, profile))
    wait_until(launcher.exits, what="the exit is reported")
    launcher.kill(handle)
    assert begun == []


@pytest.mark.finding("U19")
def test_a_driver_in_client_mode_runs_in_the_folder_that_the_node_has_chosen(
    tmp_path: Path, spark_home: Path
) -> None:
    program = spark_home / "bin" / "spark-submit"
    program.write_text("#!/bin/sh\npwd\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    launcher = SparkSubmitLauncher(make_host(tmp_path, folder))
    profile = SparkSubmitProfile(master="local[1]", env={"SPARK_HOME": str(spark_home)})
    request = make_request(tmp_path, profile)
    launcher.start(request)

    wait_until(launcher.exits, what="the exit is reported")
    assert request.log.read_text() == f"{folder}\n"


@pytest.mark.spark
@pytest.mark.yarn
def test_on_yarn_a_driver_runs_as_the_owner_of_its_session(
    yarn: YarnCluster, tmp_path: Path
) -> None:
    yarn.create_user_folder("ada")
    values = yarn_cluster_profile(yarn, write_spark_interpreter(tmp_path / "python"))
    profile = parse_profile({**values, "run_as": "owner"})
    request = replace(make_request(tmp_path, profile), run_as="ada")
    launcher = SparkSubmitLauncher(make_host(tmp_path / "home"))
    handle = launcher.start(request)
    try:

        def is_running() -> bool:
            status = launcher.poll(handle)
            assert status.alive, (status.message, request.log.read_text())
            return status.message.startswith("RUNNING")

        wait_until(is_running, seconds=120, what="the application runs")
        assert yarn.user_of(request.name) == "ada"
    finally:
        launcher.kill(handle)
    wait_until(lambda: not launcher.poll(handle).alive, what="the driver ends")
    assert request.name not in yarn.applications()
    launcher.exits()
