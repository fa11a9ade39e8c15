"""Catalogs beside Spark's own: Delta, Iceberg on files and on a database, and a database itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.postgres import Postgres

JARS = Path(__file__).parents[2] / ".tools" / "catalogs"
_ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
_CATALOG = "spark.sql.catalog"


def lake_jars(*parts: str) -> list[Path]:
    """All, or those that one of `parts` has in its name; empty where they were not fetched."""
    found = sorted(JARS.glob("*.jar"))
    return [jar for jar in found if not parts or any(part in jar.name for part in parts)]


def lake_extensions(jars: list[Path]) -> str:
    """The value of `spark.sql.extensions` with these jars."""
    extensions = {
        "delta-spark": "io.delta.sql.DeltaSparkSessionExtension",
        "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    names = " ".join(jar.name for jar in jars)
    return ",".join(value for key, value in extensions.items() if key in names)


def lake_conf(folder: Path, server: Postgres, database: str) -> dict[str, str]:
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
    jars: tuple[str, ...] = ()
    """Words in the names of those that it needs."""

    def __str__(self) -> str:
        return self.name


_DELTA = ("delta", "unitycatalog")
_BASE = ("iceberg", "postgresql")
LAKES = [
    Lake("parquet", "spark_catalog", "USING parquet PARTITIONED BY (k)", replaces_atomically=False),
    Lake("delta", "spark_catalog", "USING delta PARTITIONED BY (k)", True, jars=_DELTA),
    Lake("iceberg-files", "files", "PARTITIONED BY (k)", True, publishes_itself=True, jars=_BASE),
    Lake("iceberg-base", "base", "USING iceberg", True, publishes_itself=True, jars=_BASE),
    Lake("jdbc", "pg", "", replaces_atomically=True, jars=("postgresql",)),
]
IMPLEMENTATIONS = [
    pytest.param(lake, marks=[pytest.mark.matrix] if lake.name == "iceberg-files" else [])
    for lake in LAKES
]
"""The same; `make test` has one Iceberg catalog of two: Headrace has the same code for both."""
