"""Fixtures that every room shares. Those of one kind of service live in tests/support/."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings
from tests.support import short_lived_java
from tests.support.processes import children, end, processes_of
from tests.support.standalone import StandaloneCluster, running_standalone
from tests.support.waiting import wait_until
from tests.support.yarn import YarnCluster, running_yarn

pytest_plugins = ["tests.support.store", "tests.support.in_process_node"]

# No test fails because the machine is busy, and a gate gives the same answer twice.
# RANDOM_EXAMPLES=1 looks further than it.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="RANDOM_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


def pytest_configure() -> None:
    short_lived_java.apply()


# What shares a service runs in one process, where `make test` has two; the longest come first.
_LANES = (
    ("tests/control/launchers/", "tests/end_to_end/test_backends.py"),
    ("tests/end_to_end/",),
    ("tests/driver/",),
    ("tests/",),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs on the PostgreSQL server is marked so, for `make check` to leave it out.

    Each has its lane, and they run in the order of these.
    """
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if "postgresql" in values or "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)
        item.add_marker(pytest.mark.xdist_group(str(_lane(item))))
    items.sort(key=_lane)


def _lane(item: pytest.Item) -> int:
    return next(at for at, lane in enumerate(_LANES) if item.nodeid.startswith(lane))


@pytest.fixture(scope="session")
def standalone() -> Iterator[StandaloneCluster]:
    """A Spark standalone cluster for all tests."""
    with running_standalone() as cluster:
        cluster.wait_up()
        yield cluster


@pytest.fixture(scope="session")
def yarn() -> Iterator[YarnCluster]:
    """A YARN on an HDFS for all tests."""
    with running_yarn() as cluster:
        cluster.wait_up()
        yield cluster


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it."""
    for name in os.environ:
        if name.startswith("HEADRACE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def home(_own_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A HEADRACE_HOME of the test's own, in whose folder it runs; its processes must end by
    themselves, which they do at once after the last command.
    """
    path = tmp_path / "home"
    monkeypatch.setenv("HEADRACE_HOME", str(path))
    monkeypatch.setenv("HEADRACE_EMBEDDED__LINGER", "0s")
    monkeypatch.chdir(tmp_path)
    yield path
    try:
        wait_until(lambda: not processes_of(path), seconds=30, what="its processes have ended")
    except AssertionError:
        left = processes_of(path)
        commands = [" ".join(_command(process)) for process in left]
        end(left)
        pytest.fail(f"left running: {commands}")


@pytest.fixture(autouse=True)
def _no_child_left() -> Iterator[None]:
    """A test that leaves a child process behind fails; wider fixtures may keep theirs."""
    before = children()
    yield
    _, left = psutil.wait_procs(list(children() - before), timeout=5)
    if left:
        commands = [" ".join(_command(process)) for process in left]
        end(set(left))
        pytest.fail(f"left running: {commands}")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return [f"pid {process.pid}, which has just ended"]
