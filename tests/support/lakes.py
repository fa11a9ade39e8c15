"""Catalogs beside Spark's own: Delta, Iceberg on files and on a database, and a database itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.postgres import PostgresServer

JARS = Path(__file__).parents[2] / ".tools" / "catalogs"
_ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
_CATALOG = "spark.sql.catalog"


def lake_jars() -> list[Path]:
    """Empty where they were not fetched."""
    return sorted(JARS.glob("*.jar"))


def lake_extensions() -> str:
    """The value of `spark.sql.extensions`."""
    if not lake_jars():
        return ""
    return (
        "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    )


def lake_conf(folder: Path, server: PostgresServer, database: str) -> dict[str, str]:
    """Delta as `spark_catalog`; Iceberg as `files` and `base`; `pg` is the database itself.

    Fails the test where their jars are not there.
    """
    if not lake_jars():
        pytest.fail("the jars of Delta and Iceberg are needed: run scripts/setup-jars catalogs")
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/{database}?user=postgres"
    return {
        f"{_CATALOG}.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # The log of a few rows needs no fifty tasks.
        "spark.databricks.delta.snapshotPartitions": "2",
        f"{_CATALOG}.files": _ICEBERG,
        f"{_CATALOG}.files.type": "hadoop",
        f"{_CATALOG}.files.warehouse": str(folder / "files"),
        f"{_CATALOG}.base": _ICEBERG,
        f"{_CATALOG}.base.type": "jdbc",
        f"{_CATALOG}.base.uri": url,
        f"{_CATALOG}.base.jdbc.schema-version": "V1",
        f"{_CATALOG}.base.warehouse": str(folder / "base"),
        f"{_CATALOG}.pg": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{_CATALOG}.pg.url": url,
        f"{_CATALOG}.pg.driver": "org.postgresql.Driver",
    }


@dataclass(frozen=True, slots=True)
class Lake:
    """One kind of table, as a CTAS says it."""

    name: str
    catalog: str
    clause: str
    replaces_atomically: bool
    publishes_itself: bool = False

    def __str__(self) -> str:
        return self.name


LAKES = [
    Lake("parquet", "spark_catalog", "USING parquet PARTITIONED BY (k)", replaces_atomically=False),
    Lake("delta", "spark_catalog", "USING delta PARTITIONED BY (k)", replaces_atomically=True),
    Lake("iceberg-files", "files", "PARTITIONED BY (k)", True, publishes_itself=True),
    Lake("iceberg-base", "base", "USING iceberg", True, publishes_itself=True),
    Lake("jdbc", "pg", "", replaces_atomically=True),
]
