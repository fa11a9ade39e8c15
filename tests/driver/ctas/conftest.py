"""A link that keeps a journal in memory, and a database of the test's own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.support.journal import JournalLink

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
