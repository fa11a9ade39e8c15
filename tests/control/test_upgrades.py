"""Upgrades: a node of this version takes over the store that a released version has left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from tests.support.in_process_node import make_settings, serve_node
from tests.support.postgres import Postgres
from tests.support.recorded_store import LISTS, RECORDS, load_postgres, load_sqlite, read_lists

from headrace.store.database import Database
from headrace.store.tables import metadata

_VERSIONS = sorted(folder.name for folder in RECORDS.iterdir())


@pytest.fixture(params=_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Return each released version."""
    return str(request.param)


@pytest.fixture(params=["sqlite", "postgresql"])
def old_store(
    request: pytest.FixtureRequest, version: str, tmp_path: Path, postgres: Postgres
) -> Iterator[str]:
    """Return the URL of a store that the version has left."""
    if request.param == "sqlite":
        yield load_sqlite(version, tmp_path / "headrace.db")
        return
    name = postgres.new_database()
    yield load_postgres(version, postgres.url(name))
    postgres.drop(name)


def test_an_upgraded_store_has_the_schema_of_this_version(old_store: str) -> None:
    database = Database.open(old_store)
    database.migrate()
    with database.read() as tx:
        assert compare_metadata(MigrationContext.configure(tx.connection), metadata) == []
    database.close()


def test_a_node_shows_what_an_older_one_has_left_and_continues_the_work(
    old_store: str, version: str, tmp_path: Path
) -> None:
    recorded = json.loads((RECORDS / version / "shown.json").read_text())
    expected = recorded["sqlite" if old_store.startswith("sqlite") else "postgresql"]
    settings = make_settings(tmp_path / "home", store={"url": old_store}, lease={"sweep": "1h"})
    with serve_node(settings) as node:
        shown = read_lists(node)
        for name in LISTS:
            missing = [item for item in expected[name] if item not in shown[name]]
            assert missing == [], name
            assert expected[name], name
        session, driver = node.start_session()
        statement = node.submit("SELECT 1", session=session)["id"]
        driver.claim()
        assert driver.succeed(statement).applied
        assert node.statement(statement)["state"] == "success"
