"""Each test of the contract runs on a store in SQLite and on one in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.postgres import PostgresServer, running_server

from headrace.store.database import Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """A migrated database to copy."""
    name = postgres.new_database()
    database = Database.open(postgres.url(name))
    database.migrate()
    database.close()
    return name


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A migrated PostgreSQL store of the test's own."""
    name = postgres.new_database(postgres_template)
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of the test's own on each database in turn; SQLite's is not migrated yet."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return f"sqlite:///{tmp_path / 'headrace.db'}"


@pytest.fixture
def store(store_url: str) -> Iterator[Database]:
    """A migrated store, open."""
    database = Database.open(store_url)
    database.migrate()
    yield database
    database.close()
