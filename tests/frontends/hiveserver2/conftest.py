"""The node of the tests of HiveServer2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.hiveserver2 import Connect, HiveClient, HiveNode, serve_hive


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveNode]:
    """Serve a node for the tests of a module."""
    with serve_hive(tmp_path_factory.mktemp("hive") / "home") as node:
        yield node


@pytest.fixture(params=["http", "socket"])
def connect(server: HiveNode, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Yield a function that connects as a user, by each transport, and opens a session."""
    opened: list[HiveClient] = []

    def connect_as(who: str = "ada", version: int = 9, **configuration: str) -> HiveClient:
        client = server.over_http(who) if request.param == "http" else server.over_socket(who)
        opened.append(client)
        assert client.open(version, **configuration).status.statusCode == 0
        return client

    yield connect_as
    server.end_claimed()
    for client in opened:
        # No test gets the statements of another one.
        client.close_operations()
        client.close()
