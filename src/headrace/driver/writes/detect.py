"""Detection of the tables of files that a statement writes to, from Spark's parsed plan."""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.commit_protocol import isolates_appends
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.written_rows import TargetFinder, WrittenTarget
from headrace.driver.writes.locks import may_be_transient
from headrace.model.transaction import TableWrite

_LOG = logging.getLogger("headrace.driver")


class WriteDetector:
    """Finds the tables of Spark's session catalog that statements of one session write to.

    Other catalogs control concurrent writes themselves.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._targets = TargetFinder(session)
        self._v1_catalog = V1Catalog(session)
        self._files = HadoopFiles(session)

    def find_writes(self, plan: Any) -> list[TableWrite]:
        """Return the writes of a parsed statement, one for each location.

        There is none for a target that Spark will reject. Raises PySparkException and
        Py4JJavaError if the catalog fails in a way that may be transient.
        """
        writes: dict[str, TableWrite] = {}
        try:
            for target in self._targets.find_targets(plan):
                write = self._resolve(target)
                if write is not None and not (
                    write.location in writes and writes[write.location].overwrite
                ):
                    writes[write.location] = write
        except (PySparkException, Py4JError) as error:
            if may_be_transient(error):
                raise
            # Spark reports the error when it runs the statement.
            _LOG.info("the tables that the statement writes to are not known: %s", error)
        return list(writes.values())

    def find_replaced(self, path: TablePath) -> TableWrite | None:
        """Return the write of a statement that replaces a table of the session catalog.

        Return None if there is no such table of files. Raises PySparkException and Py4JError.
        """
        entry = self._v1_catalog.find(path)
        if entry is None or entry.files_location is None:
            return None
        location = self._normalize(entry.files_location)
        return TableWrite(location=location, table=path.lock_key, overwrite=True)

    def find_location(self, table: str) -> str | None:
        """Return the location of a table, or None if there is no such table of files.

        Args:
            table: Quoted name with its database. Raises PySparkException and Py4JError.
        """
        found = self._v1_catalog.resolve(self._targets.parse_name(table))
        return None if found is None else found[1].files_location

    def _resolve(self, target: WrittenTarget) -> TableWrite | None:
        overwrite = target.is_exclusive or not isolates_appends(self._session)
        if target.location is not None:
            return self._directory_write(target.location, overwrite)
        found = self._v1_catalog.resolve(target.names) if target.names else None
        if found is not None:
            path, entry = found
            if entry.files_location is None:
                return None
            # Hive's loadPartition deletes the files of a partition that was created meanwhile.
            return TableWrite(
                location=self._normalize(entry.files_location),
                table=path.lock_key,
                overwrite=overwrite or entry.has_hive_partitions,
            )
        if len(target.names) == 2 and "/" in target.names[1]:
            # A format and a path: INSERT INTO parquet.`/path`
            return self._directory_write(target.names[1], overwrite)
        return None

    def _directory_write(self, location: str, overwrite: bool) -> TableWrite:
        return TableWrite(location=self._normalize(location), table=None, overwrite=overwrite)

    def _normalize(self, location: str) -> str:
        return self._files.identify(location)
