"""Fixtures that all packages share. Fixtures for one kind of service are in tests/support/."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest
from hypothesis import HealthCheck, settings
from tests.support import short_lived_java
from tests.support.groups import CLUSTERS, group_of, group_resources, rank_of, scheduler_of
from tests.support.jvm import stop_services
from tests.support.processes import children, end, processes_of
from tests.support.shared_services import shared
from tests.support.standalone import StandaloneCluster, start_standalone
from tests.support.waiting import wait_until
from tests.support.yarn import YarnCluster, start_yarn

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

pytest_plugins = [
    "tests.support.run_cleanup",
    "tests.support.group_times",
    "tests.support.store",
    "tests.support.in_process_node",
]

# Without deadline and with fixed examples, the outcome does not depend on load or chance.
# RANDOM_EXAMPLES=1 tries other examples.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="RANDOM_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


def pytest_configure() -> None:
    short_lived_java.apply()
    # A server may be paused for longer than the five seconds that httpx waits by default.
    for kind in ("connect", "read", "write", "pool"):
        setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, kind, 60.0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return scheduler_of(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need Spark or PostgreSQL, deselect two kinds, and sort the groups.

    `make check` deselects marked tests. `make chaos` runs the matrices, and `make clients` the
    clients.
    """
    for marker in ("matrix", "clients"):
        if marker not in config.option.markexpr:
            deselected = [item for item in items if item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=deselected)
            items[:] = [item for item in items if not item.get_closest_marker(marker)]
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        fixtures = set(getattr(item, "fixturenames", ()))
        if "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
        servers = {"postgres", "stoppable_postgres"} & fixtures
        if "postgresql" in values or servers:
            item.add_marker(pytest.mark.postgres)
    items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what a group shares after its last test.

    The clusters end then, too, because their heartbeats need CPU.
    """
    group = group_of(item.nodeid)
    if nextitem is None or group_of(nextitem.nodeid) != group:
        group_resources.close()
        if group == CLUSTERS:
            stop_services()


@pytest.fixture(scope="session")
def standalone() -> StandaloneCluster:
    """Return a Spark standalone cluster for all tests."""
    return StandaloneCluster(**shared("standalone", start_standalone))


@pytest.fixture(scope="session")
def yarn() -> YarnCluster:
    """Return a YARN cluster with HDFS for all tests."""
    address = shared("yarn", start_yarn)
    return YarnCluster(Path(address["conf"]), address["url"])


@pytest.fixture(scope="session", autouse=True)
def _patient_resolution_of_links() -> Iterator[None]:
    """Let the file system of this host take longer: the tests fill its disk and its cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.files.places._RESOLVE_SECONDS", 60.0)
        yield


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the developer who runs the tests."""
    for name in os.environ:
        if name.startswith("HEADRACE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def home(_own_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an empty HEADRACE_HOME and change to its parent folder.

    The test fails if processes of this home do not end by themselves after the last command.
    """
    path = tmp_path / "home"
    monkeypatch.setenv("HEADRACE_HOME", str(path))
    monkeypatch.setenv("HEADRACE_EMBEDDED__LINGER", "0s")
    monkeypatch.chdir(tmp_path)
    yield path
    try:
        wait_until(lambda: not processes_of(path), seconds=120, what="its processes have ended")
    except AssertionError:
        left = processes_of(path)
        commands = [" ".join(_command(process)) for process in left]
        end(left)
        pytest.fail(f"left running: {commands}")


@pytest.fixture(autouse=True)
def _no_child_left() -> Iterator[None]:
    """Fail a test that leaves a child process running. Processes of wider fixtures may run on."""
    before = children()
    yield
    _, left = psutil.wait_procs(list(children() - before), timeout=30)
    if left:
        commands = [" ".join(_command(process)) for process in left]
        end(set(left))
        pytest.fail(f"left running: {commands}")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return [f"pid {process.pid}, which has just ended"]
