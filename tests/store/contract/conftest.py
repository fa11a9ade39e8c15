"""A PostgreSQL server that the tests of this folder may stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.postgres import PostgresServer, running_server
from tests.support.store import migrate


@pytest.fixture(scope="package")
def _stoppable_server() -> Iterator[tuple[PostgresServer, str]]:
    """Return the server and the name of a migrated database to copy."""
    with running_server() as server:
        template = server.new_database()
        migrate(server.url(template))
        yield server, template


@pytest.fixture
def stoppable_postgres(
    _stoppable_server: tuple[PostgresServer, str],
) -> Iterator[PostgresServer]:
    """Return the server and start it again after the test."""
    server, _template = _stoppable_server
    yield server
    server.start_again()


@pytest.fixture
def stoppable_url(
    stoppable_postgres: PostgresServer, _stoppable_server: tuple[PostgresServer, str]
) -> str:
    """Create a migrated store for one test on the server."""
    _server, template = _stoppable_server
    return stoppable_postgres.url(stoppable_postgres.new_database(template))
