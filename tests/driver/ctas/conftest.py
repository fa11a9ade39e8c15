"""Fixtures of CTAS tests: a journal in memory, and databases that belong to one test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace
from tests.support.journal import JournalLink
from tests.support.lakes import Lake, lake_conf
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def link() -> JournalLink:
    return JournalLink()


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """Name of a new database, which is the current one during the test."""
    name = f"d_{secrets.token_hex(4)}"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    yield name
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(scope="session")
def lake_session(
    spark: SparkSession, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SparkSession, Path]:
    """Return a session with all catalogs and the directory of the Iceberg catalogs."""
    folder = tmp_path_factory.mktemp("lakes")
    session = spark.newSession()
    conf = lake_conf(folder, postgres, postgres.new_database())
    # As nodes configure drivers: a session must see what another one has changed.
    uncached = {f"spark.sql.catalog.{name}.cache-enabled": "false" for name in ("files", "base")}
    for key, value in (conf | uncached).items():
        session.conf.set(key, value)
    return session, folder


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> Lake:
    """Kind of table that the test creates. Parametrize it indirectly."""
    lake: Lake = request.param
    return lake


@pytest.fixture
def namespace(lake_session: tuple[SparkSession, Path], lake: Lake) -> Iterator[LakeNamespace]:
    """Create a namespace for tables of the kind `lake`."""
    session, folder = lake_session
    lake_namespace = LakeNamespace(session, lake, folder)
    yield lake_namespace
    lake_namespace.drop()
