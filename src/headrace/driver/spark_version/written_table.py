"""The table of Spark's session catalog that a two-phase write changes, and its staged files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.hadoop_files import HadoopFiles

_COMMANDS = "org.apache.spark.sql.execution.command"
_PARTITIONS_OF_DROP = 100
"""Number of partitions that one command drops."""
_PARTITIONS_TO_ASK_FOR = 10
"""Largest number of partitions that are looked up one by one. For more, all are listed."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What a commit relies on."""

    fingerprint: str
    """See `CatalogEntry.fingerprint`."""
    location: str
    """URI of the table's directory."""
    tracks_partitions: bool
    """Whether the catalog lists the partitions of the table."""


class WrittenTable:
    """One table of a session. Every call may raise Py4JError or PySparkException."""

    def __init__(self, session: SparkSession, path: TablePath, files: HadoopFiles) -> None:
        self._jvm = Py4JBridge(session)
        self._files = files
        self._staged_files = StagedFiles(session, self._files.conf)
        self._v1_catalog = V1Catalog(session, self._jvm)
        self._path = path

    def read_state(self) -> TableState | None:
        """Return the state of the table in the catalog, or None if there is no such table."""
        entry = self._v1_catalog.find(self._path)
        if entry is None or entry.is_view or entry.location is None:
            return None
        location = self._files.qualify(entry.location).rstrip("/")
        return TableState(entry.fingerprint, location, entry.tracks_partitions)

    def list_partitions(self, static: dict[str, str]) -> dict[str, str]:
        """Return the location of each partition with these values, by its path, e.g. `k=1/j=2`."""
        spec = self._jvm.some(self._jvm.mapping(static)) if static else self._jvm.none()
        return self._list_matching(spec)

    def find_partitions(
        self, paths: Collection[str], static: dict[str, str] | None = None
    ) -> dict[str, str]:
        """Return the location of each of these partitions that exists, by its path.

        A few partitions are looked up one by one, because the time in which a Hive metastore lists
        a table grows with the number of its partitions.

        Args:
            paths: Paths with all partition columns. Their names may differ in case from those of
                the catalog: Hive writes them in lower case.
            static: Values that all of the partitions have; None: none are known.
        """
        catalog_paths = {path: self._use_catalog_names(path) for path in paths}
        if len(paths) > _PARTITIONS_TO_ASK_FOR:
            locations = self.list_partitions(static or {})
        else:
            locations = {}
            for name in catalog_paths.values():
                locations |= self._list_matching(self._jvm.some(self._parse(name)))
        return {path: locations[name] for path, name in catalog_paths.items() if name in locations}

    def _use_catalog_names(self, path: str) -> str:
        """Return a path with the names of the partition columns as the catalog has them."""
        parts = [part.partition("=") for part in path.split("/")]
        names = self._partition_names
        return "/".join(f"{names.get(key.lower(), key)}={value}" for key, _, value in parts)

    def _list_matching(self, spec: Any) -> dict[str, str]:
        """Return the location of each partition that matches a spec, by its path.

        Args:
            spec: Scala's Option of a partial partition spec; None selects all partitions.
        """
        partitions = self._v1_catalog.java_catalog.listPartitions(self._identifier, spec)
        found = self._staged_files.partitions(partitions, self._partition_columns)
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
        self._v1_catalog.refresh(self._path, location)

    @cached_property
    def _partition_columns(self) -> Any:
        """Spark's StructType of the partition columns, which no ALTER TABLE can change."""
        catalog = self._v1_catalog.java_catalog
        return catalog.getTableMetadata(self._identifier).partitionSchema()

    @cached_property
    def _partition_names(self) -> dict[str, str]:
        """The names of the partition columns, by their form in lower case."""
        return {str(name).lower(): str(name) for name in self._partition_columns.fieldNames()}

    @cached_property
    def _identifier(self) -> Any:
        return self._v1_catalog.identifier(self._path)

    def _parse(self, path: str) -> Any:
        """Return Spark's partition spec of a path, e.g. `k=1/j=2`."""
        utils = self._jvm.singleton("org.apache.spark.sql.execution.datasources.PartitioningUtils")
        return utils.parsePathFragment(path)


class StagedFiles:
    """Lists, moves and removes files, and lists partitions. Every call may raise Py4JError.

    All locations are URIs.
    """

    def __init__(self, session: SparkSession, conf: Any = None) -> None:
        """Access the files of a session.

        Args:
            conf: Hadoop's configuration; None: that of the session.
        """
        self._jvm = Py4JBridge(session)
        if conf is not None:
            self._conf = conf

    def list_files(self, location: str) -> list[str]:
        """Return the paths of the files that readers see below a directory, relative to it."""
        return _lines(self._helper.list(self._conf, location))

    def read(self, location: str) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        text = self._helper.read(self._conf, location)
        return None if text is None else str(text)

    def write(self, location: str, text: str) -> None:
        """Write a text to a file in one step: a reader sees the old file or the new one."""
        self._helper.write(self._conf, location, text)

    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        """Move files from sources to targets. Moves that were made before are skipped."""
        if moves:
            text = "\n".join(f"{source}\t{target}" for source, target in moves)
            self._helper.move(self._conf, text)

    def move_if_exists(self, source: str, target: str) -> None:
        """Move a file that may be missing. A file at the target may stay."""
        self._helper.moveIfExists(self._conf, source, target)

    def find_sources(self, pattern: str) -> list[str]:
        """Return the files that a pattern matches, and those in the directories that it matches.

        The list is empty if such a directory contains a directory.
        """
        return _lines(self._helper.findSources(self._conf, pattern))

    def copy(self, sources: Sequence[str], target: str) -> None:
        """Copy files to a directory. Files of the same name get different names there."""
        self._helper.copy(self._conf, "\n".join(sources), target)

    def remove(self, locations: Sequence[str], *, root: str | None) -> None:
        """Remove files that may exist, and the directories below `root` that become empty.

        Args:
            root: None: keep all directories.
        """
        if locations:
            self._helper.remove(self._conf, "\n".join(locations), root)

    def partitions(self, partitions: Any, schema: Any) -> dict[str, str]:
        """Return the location of each partition of Spark's catalog, by its path, e.g. `k=1/j=2`.

        Args:
            partitions: Scala sequence of CatalogTablePartition.
            schema: The StructType of the partition columns.
        """
        lines = _lines(self._helper.partitions(partitions, schema))
        return dict(line.split("\t", 1) for line in lines)

    @cached_property
    def _conf(self) -> Any:
        return self._jvm.state.newHadoopConf()

    @cached_property
    def _helper(self) -> Any:
        return compile_java(self._jvm.root, "StagedFiles")


def _lines(text: str) -> list[str]:
    # Not `splitlines`: names may contain other separators, for example U+2028.
    return text.split("\n")[:-1]
