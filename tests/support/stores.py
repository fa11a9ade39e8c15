"""Stores for tests, as fixtures: `store` is one in SQLite, then one in PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.postgres import Postgres, start_server
from tests.support.shared_services import shared

from headrace.store.database import Database
from headrace.store.tables import metadata


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """The server of the whole run: no test may stop it."""
    return Postgres(**shared("postgres", start_server))


@pytest.fixture(scope="session")
def migrated_postgres(postgres: Postgres) -> str:
    """A migrated database, which tests empty and use one after the other."""
    url = postgres.url(postgres.new_database())
    migrate(url)
    return url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, which tests copy."""
    file = tmp_path_factory.mktemp("template") / "headrace.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def postgres_url(migrated_postgres: str) -> str:
    """A migrated PostgreSQL store without any row."""
    tables = ", ".join(metadata.tables)
    with psycopg.connect(migrated_postgres) as connection:
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
    return migrated_postgres


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """A migrated SQLite store without any row."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'headrace.db')}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A migrated store, open: one on each database in turn."""
    fixture = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    database = Database.open(request.getfixturevalue(fixture))
    yield database
    database.close()


def migrate(url: str) -> None:
    """Make the tables of a store."""
    database = Database.open(url)
    database.migrate()
    database.close()
