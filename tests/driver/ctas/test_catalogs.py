"""Which implementation there is for which catalog, and that looking for it connects to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.driver.ctas import catalogs
from headrace.driver.ctas.iceberg import IcebergCatalog
from headrace.driver.ctas.session_catalog import SessionCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


class Theirs(IcebergCatalog):
    """Of somebody else."""

    kind = "theirs"


class Entry:
    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> type[Theirs]:
        return Theirs


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entries = [Entry(ICEBERG), Entry("org.example.Catalog")]
    monkeypatch.setattr(catalogs, "entry_points", lambda group: entries if group else [])
    catalogs.implementations.cache_clear()
    yield
    catalogs.implementations.cache_clear()


@pytest.mark.usefixtures("installed")
def test_what_is_installed_goes_before_headraces_own() -> None:
    found = catalogs.implementations()
    assert found[ICEBERG] is found["org.example.Catalog"] is Theirs
    assert len(found) > 2


@pytest.mark.spark
@pytest.mark.usefixtures("installed")
def test_every_catalog_says_what_it_is_without_being_reached(spark: SparkSession) -> None:
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
    found = catalogs.catalogs_in(session)
    assert [one.kind for one in found] == [SessionCatalog.kind, "theirs", "jdbc"]
    told = [one.identity() for one in found]
    assert len(set(told)) == 3
    assert "http://127.0.0.1:9" in told[1]
    assert "127.0.0.1:9/x" in told[2]
    assert "secret" not in "".join(told)
