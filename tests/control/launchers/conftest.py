"""Every backend that has a launcher, for the suite that all of them pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.aws import Aws, account, moto_server
from tests.support.clusters import standalone_profile, yarn_cluster_profile
from tests.support.jvm import free_ports
from tests.support.launches import Backend, failing, spark_standing_by, standing_by
from tests.support.waiting import wait_until

from headrace.control.launchers.base import Handle, Launcher
from headrace.control.launchers.emr_serverless import EmrServerlessLauncher
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.spark_submit import SparkSubmitLauncher
from headrace.settings import Profile

_NO_EXECUTORS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.executor.instances": "0",
}
_BACKENDS: dict[str, Callable[[pytest.FixtureRequest, Path], Backend]] = {}


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
    """Each in turn. A launcher joins by a function here and its name above."""
    return _BACKENDS[request.param](request, tmp_path_factory.mktemp("programs"))


@pytest.fixture
def launcher(backend: Backend, tmp_path: Path) -> Launcher:
    return backend.make(tmp_path)


@pytest.fixture
def handles(launcher: Launcher) -> Iterator[list[Handle]]:
    """What a test has started; killed at its end."""
    started: list[Handle] = []
    yield started
    for handle in started:
        launcher.kill(handle)
        wait_until(lambda one=handle: not launcher.poll(one).alive, what="it is gone")
    launcher.exits()


def _backend(
    make: Callable[[pytest.FixtureRequest, Path], Backend],
) -> Callable[[pytest.FixtureRequest, Path], Backend]:
    _BACKENDS[make.__name__.lstrip("_")] = make
    return make


@_backend
def _local(_request: pytest.FixtureRequest, folder: Path) -> Backend:
    return Backend(
        make=LocalLauncher,
        stays=Profile(python=standing_by(folder / "stays")),
        fails=Profile(python=failing(folder / "fails")),
        words="exit status 3",
    )


@_backend
def _standalone(request: pytest.FixtureRequest, folder: Path) -> Backend:
    cluster = request.getfixturevalue("standalone")
    # No worker has as much: the application is there, and takes nothing.
    idle = {"spark.executor.memory": "64g"}
    profile = standalone_profile(cluster, "python3")
    return Backend(
        make=_spark_submit,
        stays=Profile(
            **{
                **profile,
                "conf": {**profile["conf"], **idle},
                "python": spark_standing_by(folder / "stays"),
            }
        ),
        fails=Profile(**{**profile, "python": failing(folder / "fails")}),
        words="exit status 3",
        applications=cluster.applications,
        on_cluster=True,
        unreachable=Profile(**{**profile, "cluster_url": _nowhere()}),
    )


@_backend
def _yarn_cluster(request: pytest.FixtureRequest, folder: Path) -> Backend:
    cluster = request.getfixturevalue("yarn")
    profile = yarn_cluster_profile(cluster, spark_standing_by(folder / "stays"))
    idle = {**profile["conf"], **_NO_EXECUTORS}
    refused = {**profile["conf"], "spark.yarn.queue": "no-such-queue"}
    return Backend(
        make=_spark_submit,
        stays=Profile(**{**profile, "conf": idle}),
        fails=Profile(**{**profile, "conf": refused}),
        words="no-such-queue",
        applications=cluster.applications,
        on_cluster=True,
        lags=True,
        unreachable=Profile(**{**profile, "cluster_url": _nowhere()}),
    )


@_backend
def _emr_serverless(request: pytest.FixtureRequest, _folder: Path) -> Backend:
    aws = account(request.getfixturevalue("moto"))
    profile = aws.profile()
    return Backend(
        make=EmrServerlessLauncher,
        stays=Profile(**profile),
        fails=Profile(**profile),
        words="FAILED: out of memory",
        applications=aws.live_names,
        on_cluster=True,
        unreachable=Profile(**aws.profile(endpoint_url=_nowhere())),
        results=aws.results,
        fail=lambda handle: aws.set_state(handle["job_run_id"], "FAILED", "out of memory"),
    )


def _spark_submit(home: Path) -> SparkSubmitLauncher:
    return SparkSubmitLauncher(home, str(home / "results"))


def _nowhere() -> str:
    [port] = free_ports(1)
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="package")
def moto() -> Iterator[str]:
    """A server's address."""
    with moto_server() as address:
        yield address


@pytest.fixture
def aws(moto: str) -> Aws:
    """A bucket and an application of the test's own."""
    return account(moto)
