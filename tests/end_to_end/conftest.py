"""A node and two drivers for all tests of this folder, except tests that kill processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.node import NodeProcess
from tests.support.plain_spark import PlainSpark


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Yield a node on SQLite with the default, managed catalog."""
    process = NodeProcess(tmp_path_factory.mktemp("node") / "home")
    yield process
    process.close()


@pytest.fixture(scope="package")
def drivers(node: NodeProcess) -> tuple[str, str]:
    """Return two running sessions, whose drivers start in parallel."""
    sessions = node.session(name="first"), node.session(name="second")
    for session in sessions:
        node.wait_running(session)
    return sessions


@pytest.fixture
def session(drivers: tuple[str, str]) -> str:
    """Return a running session. Tests may leave only tables in it, under unique names."""
    return drivers[0]


@pytest.fixture
def other_session(drivers: tuple[str, str]) -> str:
    """Return a second running session."""
    return drivers[1]


@pytest.fixture(scope="package")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSpark]:
    """Yield PySpark without Headrace, for all tests of this folder."""
    process = PlainSpark(tmp_path_factory.mktemp("plain"))
    yield process
    process.close()
