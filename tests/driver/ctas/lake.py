"""A namespace of a test's own in one catalog, and what is left in it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.support.ctas import checksum, expected, rows
from tests.support.lakes import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Shore:
    """Where tables of one kind are made."""

    def __init__(self, spark: SparkSession, lake: Lake, folder: Path) -> None:
        self.spark = spark
        self.lake = lake
        name = f"n_{secrets.token_hex(4)}"
        self.namespace = f"{lake.catalog}.{name}"
        self.table = f"{self.namespace}.t"
        spark.sql(f"CREATE NAMESPACE {self.namespace}")
        if lake.catalog == "spark_catalog":
            told = dict(rows(spark, f"DESCRIBE DATABASE {self.namespace}"))
            self._place = Path(urlsplit(told["Location"]).path)
        else:
            self._place = folder / lake.catalog / name

    def ctas(self, query: str, words: str = "CREATE TABLE", name: str | None = None) -> str:
        return f"{words} {name or self.table} {self.lake.clause} AS {query}"

    @property
    def tables(self) -> list[str]:
        """What the catalog has in the namespace."""
        found = rows(self.spark, f"SHOW TABLES IN {self.namespace}")
        return sorted(name for _namespace, name, is_temporary in found if not is_temporary)

    @property
    def files(self) -> list[str]:
        """What is there of files, wherever below the namespace; checksums of Hadoop's aside."""
        found = [one for one in self._place.rglob("*") if one.is_file()]
        return sorted(str(one.relative_to(self._place)) for one in found if one.suffix != ".crc")

    def is_whole(self) -> bool:
        """Whether the table has every row, and there is nothing beside it."""
        self.spark.sql(f"REFRESH TABLE {self.table}")
        whole: bool = checksum(self.spark, self.table) == expected(self.spark)
        strange = [one for one in self.files if not one.startswith(("t/", "t\\"))]
        return whole and self.tables == ["t"] and strange == []

    def is_empty(self) -> bool:
        """Whether there is no table, and no file."""
        return self.tables == [] and self.files == []

    def drop(self) -> None:
        for table in self.tables:
            self.spark.sql(f"DROP TABLE {self.namespace}.{table}")
        self.spark.sql(f"DROP NAMESPACE {self.namespace}")
