"""One node with Spark for the tests of all clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.client_environments import ClientNode, running_thrift_server
from tests.support.directory import Directory, running_directory


@pytest.fixture(scope="package")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with running_directory(tmp_path_factory.mktemp("directory") / "slapd") as directory:
        yield directory


@pytest.fixture(scope="package")
def server(directory: Directory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientNode]:
    """Yield the node. Tests may leave only tables in it, under unique names."""
    node = ClientNode(tmp_path_factory.mktemp("server") / "home", directory)
    yield node
    node.close()


@pytest.fixture(scope="package")
def thrift_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Yield the variables of a program that connects to Spark's Thrift Server."""
    with running_thrift_server(tmp_path_factory.mktemp("peer")) as values:
        yield values
