"""What a two-phase write to a table of files stages, and which rows it replaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.py4j_bridge import Py4JBridge

WriteMode = Literal["append", "overwrite", "overwrite partitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows(ABC):
    """The rows of one statement, which can be written to any directory."""

    mode: WriteMode
    static: dict[str, str]
    """Values in the PARTITION clause, by partition column."""
    static_folder: str
    """Path that all its partitions begin with, e.g. `k=1`; empty without such values."""
    is_one_partition: bool
    """Whether the PARTITION clause has a value for every partition column."""
    keeps_existing: bool = False
    """Whether nothing is written if the partition exists."""
    drops_emptied: bool = False
    """Whether partitions that no new row replaces leave the catalog."""

    @abstractmethod
    def write_to(self, session: SparkSession, location: Any) -> tuple[DataFrame, int | None]:
        """Add the rows to a directory that belongs to no table. Raises the errors of Spark.

        Args:
            location: Hadoop's Path of the directory.

        Returns:
            The rows that the statement returns, and the number of rows written, if it is known.
        """

    def finish(self, session: SparkSession) -> None:  # noqa: B027 - most have nothing to do
        """Clean up after the commit. A driver that completes the commit of another does not."""


def static_path(jvm: Py4JBridge, names: list[str], static: dict[str, str]) -> str:
    """Return the path that all partitions with these values begin with, e.g. `k=1`.

    Args:
        names: Partition columns of the table, in order.
    """
    paths = jvm.singleton("org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils")
    parts = [
        str(paths.getPartitionPathString(name, static[name])) for name in names if name in static
    ]
    return "/".join(parts)
