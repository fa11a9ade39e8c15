"""Temporary views, of the session and of all sessions of its driver.

A view of SQL is kept as Spark holds it: its text, and the catalog, namespace and settings it was
made with. One that was made `USING` a source has no text: the statement is written again.
"""

from __future__ import annotations

from typing import Any

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.snapshot import EntryForm, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"
_FILES = "HadoopFsRelation"
_JDBC = "JDBCRelation"


def capture(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """The session's own temporary views, and in words those that cannot be taken."""
    catalog = jvm.state.catalog()
    names = jvm.list_of(catalog.getTempViewNames())
    return _taken(jvm, [(one, catalog.getRawTempView(one)) for one in names], "TEMPORARY VIEW")


def capture_global(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Those of all sessions of the driver."""
    catalog = jvm.state.catalog()
    # To make it, Spark would ask the metastore: a session that has none shall not wait for that.
    if jvm.field(catalog, "globalTempViewManager", f"{_CATALOG}.SessionCatalog") is None:
        return [], []
    listed = catalog.listTables(catalog.globalTempDatabase(), "*", False)
    names = [one.table() for one in jvm.list_of(listed)]
    views = [(one, catalog.getRawGlobalTempView(one)) for one in names]
    return _taken(jvm, views, "GLOBAL TEMPORARY VIEW")


def restore(jvm: Py4JBridge, part: SnapshotEntry, *, is_global: bool) -> None:
    """Makes a view of SQL again as it was; what it reads need not be there."""
    relation = jvm.type(f"{_CATALOG}.TemporaryViewRelation")
    view = relation(jvm.deserialize(part.body), jvm.none())
    catalog = jvm.state.catalog()
    make = catalog.createGlobalTempView if is_global else catalog.createTempView
    make(part.name, view, True)


def _taken(
    jvm: Py4JBridge, views: list[tuple[str, Any]], kind: str
) -> tuple[list[SnapshotEntry], list[str]]:
    taken, unsaved = [], []
    for called, found in views:
        view = found.get()
        if view.plan().isEmpty():
            body = jvm.serialize(view.tableMeta())
            taken.append(SnapshotEntry(name=called, form=EntryForm.JAVA, body=body))
            continue
        text = _using(jvm, view.plan().get(), f"CREATE OR REPLACE {kind} {quote_name(called)}")
        if text is None:
            unsaved.append(f"view {called}: Spark keeps no text of it")
        else:
            taken.append(SnapshotEntry(name=called, form=EntryForm.SQL, body=text))
    return sorted(taken, key=lambda part: part.name), unsaved


def _using(jvm: Py4JBridge, plan: Any, head: str) -> str | None:
    """The statement that makes a view over a source again; None for a source of another kind."""
    leaves = plan.collectLeaves()
    if leaves.size() != 1 or leaves.apply(0).getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = leaves.apply(0).relation()
    kind = relation.getClass().getSimpleName()
    if kind == _FILES:
        source = relation.fileFormat().shortName()
        columns = f" ({relation.schema().toDDL()})"
        options = jvm.map_of(relation.options())
    elif kind == _JDBC:
        source, columns = "jdbc", ""
        options = jvm.map_of(relation.jdbcOptions().parameters().originalMap())
    else:
        return None
    given = ", ".join(
        f"{quote_string(key)} {quote_string(value)}" for key, value in sorted(options.items())
    )
    return f"{head}{columns} USING {source} OPTIONS ({given})"
