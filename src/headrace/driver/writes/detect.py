"""Detection of the tables of files that a statement writes to, from Spark's parsed plan."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, plan_class_name
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.commit_protocol import isolates_appends
from headrace.driver.spark_version.ctas_plan import plan_parts
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.writes.locks import may_be_transient
from headrace.model.transaction import TableWrite

_LOG = logging.getLogger("headrace.driver")
_SESSION_CATALOG = "spark_catalog"
# Class names of Spark's parsed plans, with the field that holds the target.
_INSERT = "InsertIntoStatement"
_EXCLUSIVE = {
    # Two loaded files of the same name would replace each other. A two-phase write must find the
    # partitions where they were when it listed them.
    "LoadData": "child",
    "InsertIntoDir": "storage",
    "TruncateTable": "table",
    "TruncatePartition": "table",
    "AddPartitions": "table",
    "DropPartitions": "table",
    "RenamePartitions": "table",
    "SetTableLocation": "table",
    "DropTable": "child",
    "RenameTable": "child",
}
_WRAPPERS = {"UnresolvedWith", "Union"}
"""A WITH clause, and the INSERTs of Hive's `FROM … INSERT … INSERT …`."""
_SCRIPT = "CompoundBody"
_EXECUTE_IMMEDIATE = "UnresolvedExecuteImmediate"
_IDENTIFIER_CLAUSE = "PlanWithUnresolvedIdentifier"


class WriteDetector:
    """Finds the tables of Spark's session catalog that statements of one session write to.

    Other catalogs control concurrent writes themselves.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._jvm = Py4JBridge(session)
        self._v1_catalog = V1Catalog(session, self._jvm)
        self._files = HadoopFiles(session)

    def find_writes(self, plan: Any) -> list[TableWrite]:
        """Return the writes of a parsed statement, one for each location.

        There is none for a target that Spark will reject. Raises PySparkException and
        Py4JJavaError if the catalog fails in a way that may be transient.
        """
        writes: dict[str, TableWrite] = {}
        try:
            for target, excludes_others in self._find_targets(plan):
                write = self._resolve(target, excludes_others)
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
        files = (
            None if self._v1_catalog.kind_of(path) is None else self._v1_catalog.find_files(path)
        )
        if files is None:
            return None
        location = self._normalize(files.location)
        return TableWrite(location=location, table=path.lock_key, overwrite=True)

    def find_location(self, table: str) -> str | None:
        """Return the location of a table, or None if there is no such table of files.

        Args:
            table: Quoted name with its database. Raises PySparkException and Py4JError.
        """
        parts = self._jvm.list_of(self._jvm.state.sqlParser().parseMultipartIdentifier(table))
        path = self._find_path(parts)
        files = None if path is None else self._v1_catalog.find_files(path)
        return None if files is None else files.location

    def _find_targets(self, plan: Any) -> Iterator[tuple[Any, bool]]:
        """Yield each target of a plan, and whether the statement must have it to itself."""
        kind = plan_class_name(plan)
        if kind == _INSERT:
            yield plan.table(), plan.overwrite()
        elif kind in _EXCLUSIVE:
            yield getattr(plan, _EXCLUSIVE[kind])(), True
        else:
            for part in self._find_parts(plan, kind):
                yield from self._find_targets(part)

    def _find_parts(self, plan: Any, kind: str) -> list[Any]:
        """Return the plans inside a plan that can be statements of their own."""
        if kind in _WRAPPERS:
            return self._jvm.list_of(plan.children())
        if kind == _SCRIPT:
            return [part for part in plan_parts(plan) if plan_class_name(part) != _SCRIPT]
        if kind == _EXECUTE_IMMEDIATE:
            text = plan.sqlStmtStr()
            if plan_class_name(text) != "Literal":
                # Only Spark can evaluate the variables of a session.
                return []
            return [self._jvm.state.sqlParser().parsePlan(str(text.value().toString()))]
        if kind == _IDENTIFIER_CLAUSE:
            return [plan.planBuilder().apply(self._evaluate_identifier(plan), plan.children())]
        return []

    def _resolve(self, target: Any, excludes_others: bool) -> TableWrite | None:
        overwrite = excludes_others or not isolates_appends(self._session)
        kind = plan_class_name(target)
        if kind == "CatalogStorageFormat":
            uri = target.locationUri()
            if uri.isEmpty():
                return None
            return self._directory_write(self._jvm.location_of(uri.get()), overwrite)
        if kind == _IDENTIFIER_CLAUSE:
            names = self._evaluate_identifier(target)
        elif kind == "UnresolvedIdentifier":
            names = target.nameParts()
        else:
            names = target.multipartIdentifier()
        parts = self._jvm.list_of(names)
        path = self._find_path(parts)
        if path is not None:
            files = self._v1_catalog.find_files(path)
            if files is None:
                return None
            # Hive's loadPartition deletes the files of a partition that was created meanwhile.
            return TableWrite(
                location=self._normalize(files.location),
                table=path.lock_key,
                overwrite=overwrite or files.has_hive_partitions,
            )
        if len(parts) == 2 and "/" in parts[1]:
            # A format and a path: INSERT INTO parquet.`/path`
            return self._directory_write(parts[1], overwrite)
        return None

    def _find_path(self, parts: list[str]) -> TablePath | None:
        """Return the path of an existing table or view of the session catalog, or None."""
        manager, path = self._jvm.state.catalogManager(), None
        if parts[0] == _SESSION_CATALOG or self._is_catalog(parts[0]):
            catalog, names = parts[0], parts[1:]
        else:
            catalog, names = str(manager.currentCatalog().name()), parts
        if catalog != _SESSION_CATALOG:
            return None
        if len(names) == 1:
            path = TablePath(
                catalog, (str(manager.v1SessionCatalog().getCurrentDatabase()),), *names
            )
        elif len(names) == 2:
            path = TablePath(catalog, (names[0],), names[1])
        if path is None or self._v1_catalog.kind_of(path) is None:
            return None
        return path

    def _is_catalog(self, name: str) -> bool:
        return self._session.conf.get(f"spark.sql.catalog.{name}", None) is not None

    def _evaluate_identifier(self, plan: Any) -> Any:
        """Return the name parts of an IDENTIFIER clause. Raises Py4JError if it is no constant."""
        name = str(plan.identifierExpr().eval(None).toString())
        return self._jvm.state.sqlParser().parseMultipartIdentifier(name)

    def _directory_write(self, location: str, overwrite: bool) -> TableWrite:
        return TableWrite(location=self._normalize(location), table=None, overwrite=overwrite)

    def _normalize(self, location: str) -> str:
        return self._files.identify(location)
