"""A node for the whole run, whose sessions belong to one test each, and nodes of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.running_node import RunningNode, running_node, settings_for
from tests.support.scripted_driver import ScriptedLauncher


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node on SQLite without Spark."""
    with running_node(settings_for(tmp_path_factory.mktemp("node"))) as running:
        yield running


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Callable[..., RunningNode]]:
    """Starts a node with settings of the test's own: `start_node(lease={"sweep": "1h"})`."""
    with ExitStack() as stack:

        def start(launcher: ScriptedLauncher | None = None, **changes: Any) -> RunningNode:
            settings = settings_for(tmp_path / "node", **changes)
            return stack.enter_context(running_node(settings, launcher))

        yield start
