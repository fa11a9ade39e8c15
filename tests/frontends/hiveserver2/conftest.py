"""The node of the tests of HiveServer2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.hiveserver2 import HiveNode, serve_hive


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveNode]:
    """Serve a node for the tests of a module."""
    with serve_hive(tmp_path_factory.mktemp("hive") / "home") as node:
        yield node
