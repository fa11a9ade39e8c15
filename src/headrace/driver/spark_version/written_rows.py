"""What a statement writes: its targets, and how it changes rows, from Spark's plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.driver.spark_version.bridge import (
    EXECUTE_IMMEDIATE,
    IDENTIFIER_CLAUSE,
    INSERT,
    SCRIPT,
    WITH,
    Py4JBridge,
    class_name,
    compile_java,
    list_of,
    option_value,
    plan_class_name,
    without_aliases,
)
from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.ctas_plan import (
    analyse,
    find_immediate_text,
    identified_path,
    plan_parts,
    v1_path,
)
from headrace.driver.spark_version.file_insert import HIVE_FORMAT, LOAD, SPARK_FORMAT
from headrace.driver.spark_version.parameters import Binding

# Class names of Spark's parsed plans.
_DML = {INSERT, "LoadData", "DeleteFromTable", "UpdateTable", "MergeIntoTable"}
_WRITES = {*_DML, "InsertIntoDir"}
# Class names of analysed plans.
_DELTA = {"UpdateCommand", "DeleteCommand", "MergeIntoCommand"}
_V2 = {
    "DeltaDynamicPartitionOverwriteCommand",
    "AppendData",
    "OverwriteByExpression",
    "OverwritePartitionsDynamic",
    "ReplaceData",
    "WriteDelta",
    "DeleteFromTable",
}
_ROW_LEVEL = {"DeleteFromTable", "ReplaceData", "WriteDelta"}
_RELATION = "DataSourceV2Relation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A statement that changes the rows of one table, whose names and query Spark has resolved."""

    path: TablePath
    catalog_class: str | None
    """Java class of the catalog. None for a table of files in the session catalog."""
    command: Any
    """Spark's analysed command."""


def describe_row_change(session: SparkSession, parsed_plan: Any, bind: Binding) -> RowChange | None:
    """Analyse a parsed statement, and describe how it changes the rows of a table.

    Returns:
        None if the statement does something else, or if its table is in no catalog.

    Raises:
        PySparkException: Spark rejects the statement.
    """
    if not _is_dml(parsed_plan):
        return None
    jvm = Py4JBridge(session)
    command = analyse(jvm, bind(parsed_plan))
    kind = plan_class_name(command)
    if kind == LOAD:
        return RowChange(path=identified_path(command.table()), catalog_class=None, command=command)
    if kind in {SPARK_FORMAT, HIVE_FORMAT, *_DELTA}:
        table = command.table() if kind == HIVE_FORMAT else option_value(command.catalogTable())
        if table is None:
            return None
        path = v1_path(table)
        catalog_class = class_name(jvm.catalog(path.catalog)) if kind in _DELTA else None
        return RowChange(path=path, catalog_class=catalog_class, command=command)
    return _describe_v2(command) if kind in _V2 else None


@dataclass(frozen=True, slots=True)
class RowWrites:
    """Whether a parsed statement, or a statement inside of it, writes rows."""

    certain: bool
    possible: bool
    """Also true for an EXECUTE IMMEDIATE: its text may be unknown before it runs."""


def find_row_writes(session: SparkSession, parsed_plan: Any) -> RowWrites:
    """Return whether a parsed statement writes rows."""
    parsed = compile_java(Py4JBridge(session).root, "ParsedPlan")
    kinds = set(parsed.findKinds(parsed_plan).splitlines())
    certain = not kinds.isdisjoint(_WRITES)
    return RowWrites(certain, possible=certain or EXECUTE_IMMEDIATE in kinds)


def _describe_v2(command: Any) -> RowChange | None:
    relation = without_aliases(command.table())
    if plan_class_name(relation) != _RELATION:
        return None
    catalog, identifier = option_value(relation.catalog()), option_value(relation.identifier())
    if catalog is None or identifier is None:
        return None
    path = TablePath(str(catalog.name()), tuple(identifier.namespace()), str(identifier.name()))
    return RowChange(path=path, catalog_class=class_name(catalog), command=command)


def _is_dml(parsed_plan: Any) -> bool:
    """Return whether a parsed statement is one statement that changes rows."""
    plan = parsed_plan
    while plan_class_name(plan) == WITH:
        plan = plan.child()
    # What IDENTIFIER('t') names is known after the analysis only.
    return plan_class_name(plan) in {*_DML, IDENTIFIER_CLAUSE}


def may_delete_files(command: Any) -> bool:
    """Return whether an analysed command is a DELETE, UPDATE or MERGE, which may delete files."""
    return plan_class_name(command) in _ROW_LEVEL


def run_marked(session: SparkSession, command: Any, mark: dict[str, str]) -> DataFrame:
    """Run an analysed command with properties for the snapshots of Iceberg that it commits.

    Raises the errors of Spark.
    """
    jvm = Py4JBridge(session)
    marked = compile_java(jvm.root, "MarkedStatement")
    rows = marked.run(jvm.hash_map(mark), jvm.session, command)
    return ClassicDataFrame(rows, session)


def find_write_mode(command: Any) -> Literal["append", "replace all"] | None:
    """Return how an analysed command changes the rows of a table; None for any other change."""
    kind = plan_class_name(command)
    if kind == "AppendData":
        return "append"
    if kind == "OverwriteByExpression" and _is_true(command.deleteExpr()):
        return "replace all"
    return None


def _is_true(condition: Any) -> bool:
    return plan_class_name(condition) == "Literal" and str(condition.value()) == "True"


# Class names of Spark's parsed plans, with the field that holds the target.
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
_WRAPPERS = {WITH, "Union"}
"""A WITH clause, and the INSERTs of Hive's `FROM … INSERT … INSERT …`."""


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
        self._jvm = Py4JBridge(session)

    def find_targets(self, plan: Any) -> Iterator[WrittenTarget]:
        """Yield each target of a parsed statement, and of the statements inside of it."""
        kind = plan_class_name(plan)
        if kind == INSERT:
            yield self._describe(plan.table(), is_exclusive=plan.overwrite())
        elif kind in _EXCLUSIVE:
            yield self._describe(getattr(plan, _EXCLUSIVE[kind])(), is_exclusive=True)
        else:
            for part in self._find_parts(plan, kind):
                yield from self.find_targets(part)

    def _find_parts(self, plan: Any, kind: str) -> list[Any]:
        """Return the plans inside a plan that can be statements of their own."""
        if kind in _WRAPPERS:
            return list_of(plan.children())
        if kind == SCRIPT:
            return [part for part in plan_parts(plan) if plan_class_name(part) != SCRIPT]
        if kind == EXECUTE_IMMEDIATE:
            text = find_immediate_text(plan)
            # Only Spark can evaluate the variables of a session.
            return [] if text is None else [self._jvm.state.sqlParser().parsePlan(text)]
        if kind == IDENTIFIER_CLAUSE:
            return [plan.planBuilder().apply(self._evaluate_identifier(plan), plan.children())]
        return []

    def _describe(self, target: Any, *, is_exclusive: bool) -> WrittenTarget:
        kind = plan_class_name(target)
        if kind == "CatalogStorageFormat":
            uri = target.locationUri()
            location = None if uri.isEmpty() else self._jvm.location_of(uri.get())
            return WrittenTarget(location=location, is_exclusive=is_exclusive)
        if kind == IDENTIFIER_CLAUSE:
            names = self._evaluate_identifier(target)
        elif kind == "UnresolvedIdentifier":
            names = target.nameParts()
        else:
            names = target.multipartIdentifier()
        return WrittenTarget(names=tuple(list_of(names)), is_exclusive=is_exclusive)

    def parse_name(self, name: str) -> list[str]:
        """Return the parts of a name in SQL. Raises the errors of Spark's parser."""
        return list_of(self._jvm.state.sqlParser().parseMultipartIdentifier(name))

    def _evaluate_identifier(self, plan: Any) -> Any:
        """Return the name parts of an IDENTIFIER clause. Raises Py4JError if it is no constant."""
        name = str(plan.identifierExpr().eval(None).toString())
        return self._jvm.state.sqlParser().parseMultipartIdentifier(name)
