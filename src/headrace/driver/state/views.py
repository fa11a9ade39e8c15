"""Temporary views of the session, and global temporary views of the whole driver.

An SQL view is captured as Spark's own metadata: its text, and the catalog, namespace and settings
of its creation. A view created with `USING` has no text, so its statement is written anew from the
options of its source.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name
from headrace.driver.state.limits import make_entry
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.session import EntryForm, SessionView, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"
_SCOPE = "view.catalogAndNamespace."
_QUERY = "view.query.out."
_CONF = "view.sqlConfig."
_READS = "view.referredTempViewNames"
"""Properties of a view, from Spark's CatalogTable."""
_DESCRIBED: dict[str, SessionView | None] = {}
"""Described views by their serialised metadata."""
_MAX_DESCRIBED = 1000
_FILES = "HadoopFsRelation"
_JDBC = "JDBCRelation"


def capture(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the session's temporary views, and a description of each that cannot be captured."""
    catalog = jvm.state.catalog()
    names = jvm.list_of(catalog.getTempViewNames())
    views = [(name, catalog.getRawTempView(name)) for name in names]
    return _capture_views(jvm, views, "TEMPORARY VIEW")


def capture_global(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the global temporary views of the driver, in the same form as `capture`."""
    catalog = jvm.state.catalog()
    # Creating the lazy manager asks the metastore for a database. Without global views, skip that.
    if jvm.field(catalog, "globalTempViewManager", f"{_CATALOG}.SessionCatalog") is None:
        return [], []
    tables = catalog.listTables(catalog.globalTempDatabase(), "*", False)
    names = [table.table() for table in jvm.list_of(tables)]
    views = [(name, catalog.getRawGlobalTempView(name)) for name in names]
    return _capture_views(jvm, views, "GLOBAL TEMPORARY VIEW")


def restore(jvm: Py4JBridge, entry: SnapshotEntry, *, is_global: bool) -> None:
    """Create an SQL view from its metadata. The relations that it reads need not exist."""
    view_class = jvm.type(f"{_CATALOG}.TemporaryViewRelation")
    view = view_class(jvm.deserialize(entry.body), jvm.none())
    catalog = jvm.state.catalog()
    create = catalog.createGlobalTempView if is_global else catalog.createTempView
    create(entry.name, view, True)


def _capture_views(
    jvm: Py4JBridge, views: list[tuple[str, Any]], kind: str
) -> tuple[list[SnapshotEntry], list[str]]:
    entries, unsaved = [], []
    for name, option in views:
        view = option.get()
        if _is_of_memory_sink(view):
            # Its query creates the view again.
            continue
        if view.plan().isEmpty():
            body = jvm.serialize(view.tableMeta())
            query = _describe_query(jvm, name, view.tableMeta(), body)
            entries.append(make_entry(name, EntryForm.JAVA, body, view=query))
            continue
        create = f"CREATE OR REPLACE {kind} {quote_name(name)}"
        text = _write_statement(jvm, view.plan().get(), create)
        if text is None:
            unsaved.append(f"view {name}: Spark keeps no SQL text for it")
        else:
            entries.append(make_entry(name, EntryForm.SQL, text))
    return sorted(entries, key=lambda entry: entry.name), unsaved


def _describe_query(jvm: Py4JBridge, name: str, meta: Any, body: str) -> SessionView | None:
    """Return what a streaming query needs of a view; None if the metadata does not have it.

    Args:
        body: The serialised metadata. A view that has not changed is not read again.
    """
    if body in _DESCRIBED:
        return _DESCRIBED[body]
    if len(_DESCRIBED) >= _MAX_DESCRIBED:
        _DESCRIBED.clear()
    properties = jvm.map_of(meta.properties())
    fields = [field["name"] for field in json.loads(meta.schema().json())["fields"]]
    text = meta.viewText()
    view = _read_properties(name, text.get(), fields, properties) if text.isDefined() else None
    _DESCRIBED[body] = view
    return view


def _read_properties(
    name: str, text: str, fields: list[str], properties: dict[str, str]
) -> SessionView | None:
    scope = [
        properties[f"{_SCOPE}part.{index}"]
        for index in range(int(properties.get(f"{_SCOPE}numParts", "0")))
    ]
    queried = [
        properties[f"{_QUERY}col.{index}"]
        for index in range(int(properties.get(f"{_QUERY}numCols", "0")))
    ]
    if not scope:
        return None
    reads = json.loads(properties.get(_READS, "[]"))
    return SessionView(
        name=name,
        query=text,
        columns=fields if fields != queried else [],
        catalog=scope[0],
        namespace=scope[1:],
        conf={
            key.removeprefix(_CONF): value
            for key, value in properties.items()
            if key.startswith(_CONF)
        },
        reads=[parts[0] for parts in reads if len(parts) == 1],
    )


def _is_of_memory_sink(view: Any) -> bool:
    """Return whether a view shows the rows of a streaming query's memory sink."""
    if view.plan().isEmpty():
        return False
    leaves = view.plan().get().collectLeaves()
    return bool(leaves.size() == 1 and plan_class_name(leaves.apply(0)) == "MemoryPlan")


def _write_statement(jvm: Py4JBridge, plan: Any, create: str) -> str | None:
    """Return the statement that creates a view `USING` files or JDBC; None for other sources."""
    leaves = plan.collectLeaves()
    if leaves.size() != 1 or plan_class_name(leaves.apply(0)) != "LogicalRelation":
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
    option_list = ", ".join(
        f"{quote_string(key)} {quote_string(value)}" for key, value in sorted(options.items())
    )
    return f"{create}{columns} USING {source} OPTIONS ({option_list})"
