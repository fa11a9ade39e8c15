"""One description of each backend, for the contract suite that all launchers pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.aws import Aws, account, moto_server
from tests.support.clusters import standalone_profile, yarn_cluster_profile
from tests.support.groups import group_resources
from tests.support.launches import (
    Backend,
    make_host,
    write_failing_interpreter,
    write_spark_interpreter,
    write_waiting_interpreter,
)
from tests.support.ports import free_port
from tests.support.waiting import wait_until

from headrace.config.profiles import Profile, parse_profile
from headrace.control.launchers.base import Handle, Launcher
from headrace.control.launchers.emr_serverless import EmrServerlessLauncher
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.spark_submit import SparkSubmitLauncher

_NO_EXECUTORS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.executor.instances": "0",
}


@pytest.fixture(
    scope="package",
    params=[
        "local",
        "emr_serverless",
        pytest.param("standalone", marks=pytest.mark.spark),
        pytest.param("yarn_cluster", marks=[pytest.mark.spark, pytest.mark.yarn]),
    ],
)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """Each backend in turn. To add one, add a function to _BACKENDS and its name above."""
    return _BACKENDS[request.param](request, tmp_path_factory.mktemp("programs"))


@pytest.fixture
def launcher(backend: Backend, tmp_path: Path) -> Launcher:
    return backend.make_launcher(tmp_path)


@pytest.fixture
def handles(launcher: Launcher) -> Iterator[list[Handle]]:
    """Return a list for the handles of started drivers, which are killed after the test."""
    handles: list[Handle] = []
    yield handles
    for handle in handles:
        launcher.kill(handle)
        wait_until(lambda handle=handle: not launcher.poll(handle).alive, what="the driver ends")
    launcher.exits()


def _local(_request: pytest.FixtureRequest, folder: Path) -> Backend:
    return Backend(
        make_launcher=lambda home: LocalLauncher(make_host(home)),
        running=Profile(python=write_waiting_interpreter(folder / "running")),
        failing=Profile(python=write_failing_interpreter(folder / "failing")),
        failure_message="exit status 3",
    )


def _standalone(request: pytest.FixtureRequest, folder: Path) -> Backend:
    cluster = request.getfixturevalue("standalone")
    # No worker has this much memory, so the application exists but gets no executors.
    unsatisfiable = {"spark.executor.memory": "64g"}
    profile = standalone_profile(cluster, "python3")
    return Backend(
        make_launcher=_spark_submit_launcher,
        running=parse_profile(
            {
                **profile,
                "conf": {**profile["conf"], **unsatisfiable},
                "python": write_spark_interpreter(folder / "running"),
            }
        ),
        failing=parse_profile({**profile, "python": write_failing_interpreter(folder / "failing")}),
        failure_message="exit status 3",
        applications=cluster.applications,
        has_cluster=True,
        unreachable=parse_profile({**profile, "cluster_url": _closed_address()}),
    )


def _yarn_cluster(request: pytest.FixtureRequest, folder: Path) -> Backend:
    cluster = request.getfixturevalue("yarn")
    profile = yarn_cluster_profile(cluster, write_spark_interpreter(folder / "running"))
    without_executors = {**profile["conf"], **_NO_EXECUTORS}
    with_missing_queue = {**profile["conf"], "spark.yarn.queue": "no-such-queue"}
    return Backend(
        make_launcher=_spark_submit_launcher,
        running=parse_profile({**profile, "conf": without_executors}),
        failing=parse_profile({**profile, "conf": with_missing_queue}),
        failure_message="no-such-queue",
        applications=cluster.applications,
        has_cluster=True,
        processes_lag=True,
        unreachable=parse_profile({**profile, "cluster_url": _closed_address()}),
    )


def _emr_serverless(request: pytest.FixtureRequest, _folder: Path) -> Backend:
    aws = account(request.getfixturevalue("moto"))
    profile = aws.profile()
    return Backend(
        make_launcher=lambda home: EmrServerlessLauncher(make_host(home)),
        running=parse_profile(profile),
        failing=parse_profile(profile),
        failure_message="FAILED: out of memory",
        applications=aws.live_names,
        has_cluster=True,
        unreachable=parse_profile(aws.profile(endpoint_url=_closed_address())),
        results=aws.results,
        fail=lambda handle: aws.set_state(handle["job_run_id"], "FAILED", "out of memory"),
    )


_BACKENDS: dict[str, Callable[[pytest.FixtureRequest, Path], Backend]] = {
    "local": _local,
    "emr_serverless": _emr_serverless,
    "standalone": _standalone,
    "yarn_cluster": _yarn_cluster,
}


def _spark_submit_launcher(home: Path) -> SparkSubmitLauncher:
    return SparkSubmitLauncher(make_host(home))


def _closed_address() -> str:
    """Return an address of this host at which no process listens."""
    port = free_port()
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """Address of a moto server. Its variables of the environment end with the group."""
    yield group_resources.enter_context(moto_server())
    group_resources.close()


@pytest.fixture
def aws(moto: str) -> Aws:
    """Create a bucket and an EMR Serverless application."""
    return account(moto)
