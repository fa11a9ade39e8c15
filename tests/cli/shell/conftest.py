"""Fixtures of the tests of the shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.scripted_node import ScriptedNode
from tests.cli.shell.shell_terminal import ShellTerminal

NAMESPACE_QUERY = "SELECT current_catalog(), current_database()"


@pytest.fixture
def node(node: ScriptedNode) -> ScriptedNode:
    """Return a node whose sessions are in the database `default`."""
    set_database(node, "default")
    return node


def set_database(node: ScriptedNode, database: str, catalog: str = "spark_catalog") -> None:
    """Set the current database that the sessions of the node report."""
    columns = [("c", "string"), ("d", "string")]
    node.on(NAMESPACE_QUERY, columns=columns, chunks=[[[catalog, database]]])


@pytest.fixture
def state_folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def shell(
    node: ScriptedNode, environment: dict[str, str], state_folder: Path, tmp_path: Path
) -> Iterator[ShellTerminal]:
    """Return a terminal on which no shell was started yet."""
    terminal = ShellTerminal({**environment, "XDG_STATE_HOME": str(state_folder)})
    yield terminal
    terminal.close()


def user_statements(node: ScriptedNode) -> list[str]:
    """Return the statements of the user in order, without those that load names."""
    bodies = [call.body or {} for call in node.calls("POST", "/api/v1/statements")]
    return [body["statement"] for body in bodies if "row_limit" not in body]
