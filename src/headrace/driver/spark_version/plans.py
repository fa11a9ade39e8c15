"""What a statement or a frame reads and defines, from Spark's plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.driver.spark_version.bridge import (
    EXECUTE_IMMEDIATE,
    IDENTIFIER_CLAUSE,
    INSERT,
    SCRIPT,
    WITH,
    Py4JBridge,
    analysed_plan,
    list_of,
    parse_plan,
    plan_class_name,
    without_aliases,
)
from headrace.driver.spark_version.ctas_plan import plan_parts
from headrace.driver.spark_version.parameters import frame_of_plan, parse_text
from headrace.grammar.quoting import quote_name
from headrace.model.statement import Parameter

Relation = tuple[int, int, tuple[str, ...]]
"""First and last offset, in code points, and the parts of a name that a statement reads."""
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_CHANGES = {*(INSERT, "UpdateTable", "DeleteFromTable", "MergeIntoTable", "AlterViewAs")}
"""Commands that read relations and change another one."""
_FUNCTIONS = {"CreateUserDefinedFunction", "CreateSQLFunctionCommand"}
_READERS = {
    *("CreateViewCommand", "CreateView", "CreateTableAsSelect", "ReplaceTableAsSelect"),
    *("ExplainCommand", "DescribeRelation", "DescribeColumn", "DescribeQueryCommand"),
    *("ShowColumns", "CacheTableAsSelect", EXECUTE_IMMEDIATE, "CreateVariable"),
    *(IDENTIFIER_CLAUSE, "SetVariable", "InsertIntoDir", SCRIPT),
}
"""Commands that read relations and change none. All other commands change the object they name."""
_PERMANENT_VIEW = "CreateView"
_SESSION_PLANS = {
    "SetCommand",
    "SetCatalogCommand",
    "SetNamespaceCommand",
    "SetCatalogAndNamespace",
    "UseStatement",
    "CreateViewCommand",
    "CreateTempViewUsing",
    "CreateFunctionCommand",
    "CreateSQLFunctionCommand",
    "CreateVariable",
    "AddJarsCommand",
    "AddFilesCommand",
}
"""Plans whose effect ends with the session. Spark's parser has other plans for what a catalog
keeps, also for views and functions."""
_DECLARING = {"CreateTable", "ReplaceTable"}
"""Commands that declare the columns of a table."""
_SELECTING = {_PERMANENT_VIEW, "CreateTableAsSelect", "ReplaceTableAsSelect"}
"""Commands that give a table or view the columns of a query."""
_CATALOG_PLANS = {
    "CreateTable",
    "CreateTableCommand",
    "CreateTableLikeCommand",
    "CreateNamespace",
    "CreateFunction",
    "CreateUserDefinedFunction",
}


def find_relations(session: SparkSession, text: str) -> list[Relation]:
    """Return the relations that a statement reads, in the order of the text."""
    return sorted(_find_relations(parse_plan(session, text)))


def find_view_relations(session: SparkSession, text: str) -> list[Relation]:
    """Return the relations that the query of a CREATE VIEW reads, in the order of the text."""
    return sorted(_find_relations(parse_plan(session, text).query()))


def find_script_relations(session: SparkSession, text: str) -> Iterator[Relation]:
    """Yield the relations that the statements of a script read."""
    for part in plan_parts(parse_plan(session, text)):
        if plan_class_name(part) != SCRIPT:
            yield from _find_relations(part)


def _find_relations(plan: Any) -> Iterator[Relation]:
    remaining = [plan]
    while remaining:
        node = remaining.pop()
        kind = plan_class_name(node)
        if kind == "UnresolvedRelation":
            origin = node.origin()
            name = tuple(str(part) for part in list_of(node.multipartIdentifier()))
            if origin.startIndex().isDefined() and origin.stopIndex().isDefined():
                yield int(origin.startIndex().get()), int(origin.stopIndex().get()), name
            continue
        if kind == WITH:
            remaining += [entry.productElement(1) for entry in list_of(node.cteRelations())]
        remaining += list_of(node.children())
        remaining += list_of(node.subqueries())


def find_temporary_view(session: SparkSession, text: str) -> str | None:
    """Return the name of the temporary view that a statement creates; None if it creates none."""
    plan = parse_plan(session, text)
    kind = plan_class_name(plan)
    if kind not in {"CreateViewCommand", "CreateTempViewUsing"}:
        return None
    name = plan.name() if kind == "CreateViewCommand" else plan.tableIdent()
    return str(name.table())


def drop_temporary_views(session: SparkSession, names: Iterable[str]) -> None:
    """Drop temporary views of a session. Views that do not exist are skipped."""
    catalog = Py4JBridge(session).state.catalog()
    for name in names:
        catalog.dropTempView(name)


def copy_view(source: SparkSession, target: SparkSession, name: str) -> None:
    """Show the view of a session in another session, with the same rows."""
    plan = analysed_plan(source.table(quote_name(name)))
    frame_of_plan(target, plan).createOrReplaceTempView(quote_name(name))


def is_view(frame: DataFrame) -> bool:
    """Return whether a frame has the rows of a view, temporary or permanent."""
    return plan_class_name(without_aliases(analysed_plan(frame))) == "View"


def find_temporary_views(frame: DataFrame, definitions: Iterable[str]) -> list[str]:
    """Return the names of the temporary views that a query reads, other than defined streams."""
    defined = {name.casefold() for name in definitions}
    found: dict[str, None] = {}
    remaining = [analysed_plan(frame)]
    while remaining:
        plan = remaining.pop()
        if plan_class_name(plan) == "View" and plan.isTempView():
            name = str(plan.desc().identifier().table())
            if name.casefold() not in defined:
                found[name] = None
                continue
        remaining += list_of(plan.children())
        remaining += list_of(plan.subqueries())
    return list(found)


class Use(Enum):
    """What a statement does with a relation that it names."""

    READ = "read"
    IN_FUNCTION = "read by a function"
    IN_OWN_VIEW = "read by a view of the same name"
    TARGET = "changed"


def find_use(session: SparkSession, text: str, name: str) -> Use:
    """Return what a statement does with a relation. Raises the errors of Spark's parser."""
    jvm, plan = Py4JBridge(session), parse_plan(session, text)
    kind = plan_class_name(plan)
    if kind in _FUNCTIONS:
        return Use.IN_FUNCTION
    if kind in _CHANGES:
        is_read = not _names_target(plan, kind, name)
    else:
        is_read = kind in _READERS or not _is_command(jvm, plan)
    if not is_read:
        return Use.TARGET
    if kind == "CreateViewCommand" and str(plan.name().table()).casefold() == name.casefold():
        return Use.IN_OWN_VIEW
    return Use.READ


def _is_command(jvm: Py4JBridge, plan: Any) -> bool:
    return bool(jvm.type("java.lang.Class").forName(_COMMAND).isInstance(plan))


def _names_target(plan: Any, kind: str, name: str) -> bool:
    if kind == "AlterViewAs":
        target = plan.child()
    else:
        target = plan.targetTable() if kind == "MergeIntoTable" else plan.table()
    target = without_aliases(target)
    if plan_class_name(target) not in {"UnresolvedRelation", "UnresolvedView"}:
        return False
    parts = [str(part) for part in list_of(target.multipartIdentifier())]
    return [part.casefold() for part in parts] == [name.casefold()]


class Effect(Enum):
    """What a statement defines or changes."""

    SESSION = "the session"
    CATALOG = "a catalog"
    PERMANENT_VIEW = "a permanent view of a catalog"
    OTHER = "something else"


def find_effect(session: SparkSession, text: str) -> Effect:
    """Return what a statement defines or changes. Raises the errors of Spark's parser."""
    kind = plan_class_name(parse_plan(session, text))
    if kind == _PERMANENT_VIEW:
        return Effect.PERMANENT_VIEW
    if kind in _CATALOG_PLANS:
        return Effect.CATALOG
    return Effect.SESSION if kind in _SESSION_PLANS else Effect.OTHER


def open_view_query(session: SparkSession, text: str) -> DataFrame:
    """Return the rows of the query of a CREATE VIEW. Raises what Spark raises."""
    return frame_of_plan(session, parse_plan(session, text).query())


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The columns that a statement declares for a table or view, or gives it."""

    name: tuple[str, ...]
    """Name of the table or view; empty for a query and an INSERT."""
    columns: dict[str, tuple[str, str]]
    """Name and type by the name in lower case."""


def analyse_statement(
    session: SparkSession, text: str, parameters: Sequence[Parameter]
) -> WrittenColumns:
    """Analyse a statement or a query, and run nothing. Raises the errors of Spark."""
    plan, bind = parse_text(session, text, parameters)
    kind = plan_class_name(plan)
    if kind in _DECLARING:
        fields = [
            (str(column.name()), str(column.dataType().simpleString()))
            for column in list_of(plan.columns())
        ]
        return WrittenColumns(_parts_of_name(plan), _index_columns(fields))
    name = _parts_of_name(plan) if kind in _SELECTING else ()
    query = plan.query() if kind in {*_SELECTING, INSERT} else plan
    jvm = Py4JBridge(session)
    modes = jvm.singleton("org.apache.spark.sql.execution.CommandExecutionMode")
    analysed = jvm.state.executePlan(bind(query), modes.SKIP()).analyzed()
    schema = StructType.fromJson(json.loads(analysed.schema().json()))
    fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    return WrittenColumns(name, _index_columns(fields))


def _parts_of_name(plan: Any) -> tuple[str, ...]:
    name = plan.child() if plan_class_name(plan) == _PERMANENT_VIEW else plan.name()
    # Another plan stands for IDENTIFIER(…), whose name is not known yet.
    is_known = plan_class_name(name) == "UnresolvedIdentifier"
    return tuple(map(str, list_of(name.nameParts()))) if is_known else ()


def _index_columns(fields: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {name.casefold(): (name, type_) for name, type_ in fields}


def find_created_table(session: SparkSession, text: str) -> tuple[str, set[str]] | None:
    """Return the table that a CREATE TABLE creates: its name and its columns in lower case.

    The name has no namespace. Return None for any other statement.
    """
    plan = parse_plan(session, text)
    if plan_class_name(plan) != "CreateTable":
        return None
    *_, name = list_of(plan.name().nameParts())
    columns = {str(column.name()).casefold() for column in list_of(plan.columns())}
    return str(name).casefold(), columns
