"""Catalogs that tests use besides Spark's own: Delta, Iceberg on Hadoop and JDBC, PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.postgres import Postgres

JARS = Path(__file__).parents[2] / ".tools" / "catalogs"
_ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
_CATALOG = "spark.sql.catalog"


def lake_jars(*parts: str) -> list[Path]:
    """Return the jars whose names contain one of `parts`, by default all.

    The list is empty if the jars were not downloaded.
    """
    jars = sorted(JARS.glob("*.jar"))
    return [jar for jar in jars if not parts or any(part in jar.name for part in parts)]


def lake_extensions(jars: list[Path]) -> str:
    """Return the value of `spark.sql.extensions` for these jars."""
    extensions = {
        "delta-spark": "io.delta.sql.DeltaSparkSessionExtension",
        "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    names = " ".join(jar.name for jar in jars)
    return ",".join(value for key, value in extensions.items() if key in names)


def lake_conf(folder: Path, server: Postgres, database: str) -> dict[str, str]:
    """Return the configuration of all catalogs.

    `spark_catalog` is Delta, `files` is Iceberg's Hadoop catalog, `base` is Iceberg's JDBC catalog,
    and `pg` is PostgreSQL. Fails the test if the jars were not downloaded.
    """
    if not lake_jars():
        pytest.fail("The jars of Delta and Iceberg are missing. Run scripts/setup-jars catalogs.")
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/{database}?user=postgres"
    return {
        f"{_CATALOG}.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Delta's default of 50 tasks per log is slow for a few rows.
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
    """One kind of table that the tests create."""

    name: str
    catalog: str
    clause: str
    """Clauses of the CTAS between the table name and AS."""
    replaces_atomically: bool
    commits_natively: bool = False
    jars: tuple[str, ...] = ()
    """Parts of the names of the jars that it needs."""
    is_second: bool = False
    """Whether another kind has the same code of Headrace: `make test` runs most tests with one."""

    def __str__(self) -> str:
        return self.name


_DELTA = ("delta", "unitycatalog")
_BASE = ("iceberg", "postgresql")
LAKES = [
    Lake("parquet", "spark_catalog", "USING parquet PARTITIONED BY (k)", replaces_atomically=False),
    Lake("delta", "spark_catalog", "USING delta PARTITIONED BY (k)", True, jars=_DELTA),
    Lake("iceberg-files", "files", "PARTITIONED BY (k)", True, True, _BASE, is_second=True),
    Lake("iceberg-base", "base", "USING iceberg", True, commits_natively=True, jars=_BASE),
    Lake("jdbc", "pg", "", replaces_atomically=True, jars=("postgresql",)),
]
IMPLEMENTATIONS = [
    pytest.param(lake, marks=[pytest.mark.matrix] if lake.is_second else []) for lake in LAKES
]
"""The same; `make test` has one Iceberg catalog of two: Headrace has the same code for both."""
