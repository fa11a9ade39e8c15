"""A namespace in one catalog that belongs to one test, and the tables and files in it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.support.ctas import checksum, expected_checksum, fetch_rows
from tests.support.lakes import IMPLEMENTATIONS, LAKES, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def for_lakes(*names: str) -> pytest.MarkDecorator:
    """Run a test with the fixture `lake` set to each of these kinds of tables, by default all."""
    lakes = [lake for lake in LAKES if not names or lake.name in names]
    return pytest.mark.parametrize("lake", lakes, ids=str, indirect=True)


def for_implementations() -> pytest.MarkDecorator:
    """Parametrise a test with all catalogs, of which `make test` omits a second Iceberg catalog."""
    return pytest.mark.parametrize("lake", IMPLEMENTATIONS, ids=str, indirect=True)


class LakeNamespace:
    """A new namespace for tables of one kind."""

    def __init__(self, spark: SparkSession, lake: Lake, folder: Path) -> None:
        self.spark = spark
        self.lake = lake
        short_name = f"n_{secrets.token_hex(4)}"
        self.name = f"{lake.catalog}.{short_name}"
        self.table = f"{self.name}.t"
        spark.sql(f"CREATE NAMESPACE {self.name}")
        if lake.catalog == "spark_catalog":
            description = dict(fetch_rows(spark, f"DESCRIBE DATABASE {self.name}"))
            self._directory = Path(urlsplit(description["Location"]).path)
        else:
            self._directory = folder / lake.catalog / short_name

    def ctas(self, query: str, verb: str = "CREATE TABLE", name: str | None = None) -> str:
        """Return the text of a CTAS, by default for the table `t`."""
        return f"{verb} {name or self.table} {self.lake.clause} AS {query}"

    @property
    def tables(self) -> list[str]:
        """Names of the namespace's tables."""
        rows = fetch_rows(self.spark, f"SHOW TABLES IN {self.name}")
        return sorted(name for _namespace, name, is_temporary in rows if not is_temporary)

    @property
    def files(self) -> list[str]:
        """Paths of all files below the namespace's directory, except Hadoop's checksums."""
        files = [path for path in self._directory.rglob("*") if path.is_file()]
        return sorted(
            str(path.relative_to(self._directory)) for path in files if path.suffix != ".crc"
        )

    def is_complete(self) -> bool:
        """Return whether the table `t` has all rows, and no other table or file exists."""
        self.spark.sql(f"REFRESH TABLE {self.table}")
        has_all_rows: bool = checksum(self.spark, self.table) == expected_checksum(self.spark)
        other_files = [file for file in self.files if not file.startswith(("t/", "t\\"))]
        return has_all_rows and self.tables == ["t"] and other_files == []

    def is_empty(self) -> bool:
        """Return whether no table and no file exists."""
        return self.tables == [] and self.files == []

    def drop(self) -> None:
        for table in self.tables:
            self.spark.sql(f"DROP TABLE {self.name}.{table}")
        self.spark.sql(f"DROP NAMESPACE {self.name}")
