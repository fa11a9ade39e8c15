"""The tables and directories that a statement writes to, from Spark's parsed plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, plan_class_name
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.ctas_plan import plan_parts

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTarget:
    """What a statement writes to: a table or a directory."""

    names: tuple[str, ...] = ()
    """Parts of the name of a table, or a format and a path. Empty for a directory."""
    location: str | None = None
    """URI of a directory; None also for a directory that Spark will refuse."""
    is_exclusive: bool
    """Whether the statement must have the target to itself."""


class TargetFinder:
    """Finds the targets of statements of one session. Every call may raise Py4JError."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._jvm = Py4JBridge(session)
        self.catalog = V1Catalog(session, self._jvm)
        """The session catalog, to which the paths belong."""

    def find_targets(self, plan: Any) -> Iterator[WrittenTarget]:
        """Yield each target of a parsed statement, and of the statements inside of it."""
        kind = plan_class_name(plan)
        if kind == _INSERT:
            yield self._describe(plan.table(), is_exclusive=plan.overwrite())
        elif kind in _EXCLUSIVE:
            yield self._describe(getattr(plan, _EXCLUSIVE[kind])(), is_exclusive=True)
        else:
            for part in self._find_parts(plan, kind):
                yield from self.find_targets(part)

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

    def _describe(self, target: Any, *, is_exclusive: bool) -> WrittenTarget:
        kind = plan_class_name(target)
        if kind == "CatalogStorageFormat":
            uri = target.locationUri()
            location = None if uri.isEmpty() else self._jvm.location_of(uri.get())
            return WrittenTarget(location=location, is_exclusive=is_exclusive)
        if kind == _IDENTIFIER_CLAUSE:
            names = self._evaluate_identifier(target)
        elif kind == "UnresolvedIdentifier":
            names = target.nameParts()
        else:
            names = target.multipartIdentifier()
        return WrittenTarget(names=tuple(self._jvm.list_of(names)), is_exclusive=is_exclusive)

    def parse_name(self, name: str) -> list[str]:
        """Return the parts of a name in SQL. Raises the errors of Spark's parser."""
        return self._jvm.list_of(self._jvm.state.sqlParser().parseMultipartIdentifier(name))

    def find_path(self, parts: Sequence[str]) -> TablePath | None:
        """Return the path of an existing table or view of the session catalog, or None."""
        manager, path = self._jvm.state.catalogManager(), None
        if parts[0] == _SESSION_CATALOG or self._is_catalog(parts[0]):
            catalog, names = parts[0], [*parts[1:]]
        else:
            catalog, names = str(manager.currentCatalog().name()), [*parts]
        if catalog != _SESSION_CATALOG:
            return None
        if len(names) == 1:
            path = TablePath(
                catalog, (str(manager.v1SessionCatalog().getCurrentDatabase()),), *names
            )
        elif len(names) == 2:
            path = TablePath(catalog, (names[0],), names[1])
        if path is None or self.catalog.kind_of(path) is None:
            return None
        return path

    def _is_catalog(self, name: str) -> bool:
        return self._session.conf.get(f"spark.sql.catalog.{name}", None) is not None

    def _evaluate_identifier(self, plan: Any) -> Any:
        """Return the name parts of an IDENTIFIER clause. Raises Py4JError if it is no constant."""
        name = str(plan.identifierExpr().eval(None).toString())
        return self._jvm.state.sqlParser().parseMultipartIdentifier(name)
