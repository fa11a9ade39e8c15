"""A table of files that tests of two-phase writes change, and what is in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.ctas import fetch_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "(id BIGINT, s STRING, k INT)"
NEW = "SELECT id, 's' || (id % 2) AS s, CAST(id % 3 AS INT) AS k FROM range(100, 130, 1, 3)"
OLD = [(id_, f"s{id_ % 2}", id_ % 3) for id_ in range(10)]
ADDED = [(id_, f"s{id_ % 2}", id_ % 3) for id_ in range(100, 130)]

APPEND = f"INSERT INTO written BY NAME {NEW}"
OVERWRITE = f"INSERT OVERWRITE written BY NAME {NEW}"


def create(spark: SparkSession, definition: str = "USING parquet") -> None:
    """Create the table `written` with the rows OLD."""
    spark.sql(f"CREATE TABLE written {COLUMNS} {definition}")
    spark.sql("INSERT INTO written BY NAME SELECT id, s, k FROM " + _values(OLD))


def _values(rows: list[tuple[Any, ...]]) -> str:
    return "VALUES " + ", ".join(map(str, rows)) + " AS v(id, s, k)"


def rows(spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(fetch_rows(spark, "SELECT id, s, k FROM written"))


def location(spark: SparkSession) -> Path:
    described = {row[0]: row[1] for row in fetch_rows(spark, "DESCRIBE EXTENDED written")}
    return Path(urlsplit(described["Location"]).path)


def leftovers(spark: SparkSession) -> list[str]:
    """Return the hidden entries of the directory of `written`."""
    hidden = (path.name for path in location(spark).rglob(".*"))
    return [name for name in hidden if not name.endswith(".crc")]


def list_files(spark: SparkSession) -> list[str]:
    folder = location(spark)
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in files if not path.name.startswith((".", "_")))
