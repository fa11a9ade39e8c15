"""The table of Spark's session catalog that a two-phase write changes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.staged_files import StagedFiles

_COMMANDS = "org.apache.spark.sql.execution.command"
_PARTITIONS_OF_DROP = 100
"""Number of partitions that one command drops."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What a commit relies on."""

    fingerprint: str
    """Text that is equal as long as the table was not dropped, replaced or altered."""
    location: str
    """URI of the table's directory."""
    tracks_partitions: bool
    """Whether the catalog lists the partitions of the table."""


class WrittenTable:
    """One table of a session. Every call may raise Py4JError or PySparkException."""

    def __init__(self, session: SparkSession, path: TablePath) -> None:
        self._jvm = Py4JBridge(session)
        self._catalog = self._jvm.state.catalog()
        self._files = HadoopFiles(session)
        self._staged_files = StagedFiles(session)
        self._identifier = V1Catalog(session, self._jvm).identifier(path)

    def read_state(self) -> TableState | None:
        """Return the state of the table in the catalog, or None if there is no such table."""
        if not self._catalog.tableExists(self._identifier):
            return None
        metadata = self._catalog.getTableMetadata(self._identifier)
        location = metadata.storage().locationUri()
        if location.isEmpty() or metadata.tableType().name() == "VIEW":
            return None
        facts = (
            metadata.createTime(),
            metadata.schema().json(),
            location.get().toString(),
            metadata.provider().toString(),
            metadata.partitionColumnNames().mkString("/"),
            metadata.bucketSpec().toString(),
        )
        text = "\n".join(str(fact) for fact in facts)
        is_partitioned = not metadata.partitionColumnNames().isEmpty()
        conf = self._jvm.state.conf()
        return TableState(
            fingerprint=hashlib.sha256(text.encode()).hexdigest(),
            location=self._qualify(location.get()),
            tracks_partitions=is_partitioned
            and bool(conf.manageFilesourcePartitions())
            and bool(metadata.tracksPartitionsInCatalog()),
        )

    def list_partitions(self, static: dict[str, str]) -> dict[str, str]:
        """Return the location of each partition with these values, by its path, e.g. `k=1/j=2`."""
        metadata = self._catalog.getTableMetadata(self._identifier)
        spec = self._jvm.some(self._jvm.mapping(static)) if static else self._jvm.none()
        partitions = self._catalog.listPartitions(self._identifier, spec)
        found = self._staged_files.partitions(partitions, metadata.partitionSchema())
        return {path: self._files.qualify(location) for path, location in found.items()}

    def add_partitions(self, paths: Sequence[str]) -> None:
        """Add partitions, at their default locations. Those that exist stay as they are."""
        if not paths:
            return
        no_location = self._jvm.none()
        pair = self._jvm.type("scala.Tuple2")
        specs = [pair(self._parse(path), no_location) for path in paths]
        command: Any = self._jvm.type(f"{_COMMANDS}.AlterTableAddPartitionCommand")
        ignores_existing = True
        command(self._identifier, self._jvm.sequence(specs), ignores_existing).run(
            self._jvm.session
        )

    def drop_partitions(self, paths: Sequence[str]) -> None:
        """Remove partitions from the catalog, and keep their files."""
        command: Any = self._jvm.type(f"{_COMMANDS}.AlterTableDropPartitionCommand")
        for begin in range(0, len(paths), _PARTITIONS_OF_DROP):
            specs = [self._parse(path) for path in paths[begin : begin + _PARTITIONS_OF_DROP]]
            ignores_missing, purges, keeps_files = True, False, True
            command(
                self._identifier, self._jvm.sequence(specs), ignores_missing, purges, keeps_files
            ).run(self._jvm.session)

    def refresh(self, location: str) -> None:
        """Let this application read the changed files, and bring the statistics up to date."""
        self._catalog.refreshTable(self._identifier)
        path, system = self._files.resolve(location)
        cache = self._jvm.session.sharedState().cacheManager()
        cache.recacheByPath(self._jvm.session, path, system)
        metadata = self._catalog.getTableMetadata(self._identifier)
        utils = self._jvm.singleton(f"{_COMMANDS}.CommandUtils")
        utils.updateTableStats(self._jvm.session, metadata)

    def _qualify(self, uri: Any) -> str:
        return self._files.qualify(self._jvm.location_of(uri)).rstrip("/")

    def _parse(self, path: str) -> Any:
        """Return Spark's partition spec of a path, e.g. `k=1/j=2`."""
        utils = self._jvm.singleton("org.apache.spark.sql.execution.datasources.PartitioningUtils")
        return utils.parsePathFragment(path)
