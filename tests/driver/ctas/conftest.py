"""A link that keeps a journal in memory, and a database of the test's own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake import Shore
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
    """The name of the current database, which is empty."""
    name = f"d_{secrets.token_hex(4)}"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    yield name
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(scope="session")
def lakes(
    spark: SparkSession, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SparkSession, Path]:
    """A session that has all catalogs, and the folder of those that keep files."""
    folder = tmp_path_factory.mktemp("lakes")
    session = spark.newSession()
    for key, value in lake_conf(folder, postgres, postgres.new_database()).items():
        session.conf.set(key, value)
    return session, folder


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> Lake:
    """The kind of table that a test is about."""
    found: Lake = request.param
    return found


@pytest.fixture
def shore(lakes: tuple[SparkSession, Path], lake: Lake) -> Iterator[Shore]:
    session, folder = lakes
    made = Shore(session, lake, folder)
    yield made
    made.drop()
