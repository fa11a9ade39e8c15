"""The registry of catalog implementations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.driver.ctas import catalogs
from headrace.driver.ctas.iceberg import IcebergCatalog
from headrace.driver.ctas.jdbc import JdbcCatalog
from headrace.driver.ctas.session_catalog import SessionCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


class ThirdPartyCatalog(IcebergCatalog):
    kind = "third-party"


class Entry:
    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> type[ThirdPartyCatalog]:
        return ThirdPartyCatalog


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entries = [Entry(ICEBERG), Entry("org.example.Catalog")]
    monkeypatch.setattr(catalogs, "entry_points", lambda group: entries if group else [])
    catalogs.load_implementations.cache_clear()
    yield
    catalogs.load_implementations.cache_clear()


@pytest.mark.usefixtures("installed")
def test_installed_implementations_override_headraces_own() -> None:
    implementations = catalogs.load_implementations()
    assert implementations[ICEBERG] is implementations["org.example.Catalog"] is ThirdPartyCatalog
    assert len(implementations) > 2


@pytest.mark.spark
@pytest.mark.usefixtures("installed")
def test_the_identity_of_a_catalog_needs_no_connection_and_holds_no_secret(
    spark: SparkSession,
) -> None:
    session = spark.newSession()
    conf = {
        "a": ICEBERG,
        "a.type": "rest",
        "a.uri": "http://127.0.0.1:9",
        "b": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "b.url": "jdbc:postgresql://127.0.0.1:9/x?password=secret",
        "c": "org.example.Unknown",
    }
    for key, value in conf.items():
        session.conf.set(f"spark.sql.catalog.{key}", value)
    listed = catalogs.list_catalogs(session)
    assert [catalog.kind for catalog in listed] == [SessionCatalog.kind, "third-party", "jdbc"]
    identities = [catalog.identity() for catalog in listed]
    assert len(set(identities)) == 3
    assert "http://127.0.0.1:9" in identities[1]
    assert "127.0.0.1:9/x" in identities[2]
    assert "secret" not in "".join(identities)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("url", "option", "user"),
    [
        ("jdbc:postgresql://db/x?user=ada&password=secret", None, "ada"),
        ("jdbc:postgresql://db/x", "bob", "bob"),
        ("jdbc:postgresql://db/x?user=ada", "bob", "bob"),
        ("jdbc:postgresql://db/x", None, None),
    ],
)
def test_users_of_a_database_recover_only_their_own_tables(
    spark: SparkSession, url: str, option: str | None, user: str | None
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.own.url", url)
    if option is not None:
        session.conf.set("spark.sql.catalog.own.user", option)
    identity = json.loads(JdbcCatalog(session, "own").identity())

    assert identity.get("user") == user
    assert identity["url"] == "jdbc:postgresql://db/x"
