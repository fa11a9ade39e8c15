"""The state of a session: captured from Spark, and restored in another session.

A temporary view of SQL is captured as Spark's own metadata: its text, and the catalog, namespace
and settings of its creation. A view created with `USING` has no text, so its statement is written
anew from the options of its source.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, plan_class_name
from headrace.driver.spark_version.commit_protocol import JAR_NAME
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.session import EntryForm, SessionView, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"


def capture_variables(jvm: Py4JBridge) -> list[SnapshotEntry]:
    """Return all variables, with their values as serialised Spark literals, exact for any type."""
    entries = [
        make_entry(
            definition.identifier().name(),
            EntryForm.JAVA,
            jvm.serialize(definition.currentValue()),
            definition.defaultValueSQL(),
        )
        for definition in _list_variables(jvm)
    ]
    return sorted(entries, key=lambda entry: entry.name)


def restore_variable(jvm: Py4JBridge, entry: SnapshotEntry) -> None:
    """Declare a variable with its captured value and default."""
    namespace = jvm.array(["session"])
    identifier_class = jvm.type("org.apache.spark.sql.connector.catalog.Identifier")
    identifier = identifier_class.of(namespace, entry.name)
    definition_class = jvm.type(f"{_CATALOG}.VariableDefinition")
    definition = definition_class(identifier, entry.default, jvm.deserialize(entry.body))
    _variable_manager(jvm).create(jvm.sequence([entry.name]), definition, True)


def copy_variables(source: Py4JBridge, target: Py4JBridge) -> None:
    """Declare the variables of one session in another session of the same JVM."""
    manager = _variable_manager(target)
    for definition in _list_variables(source):
        manager.create(source.sequence([definition.identifier().name()]), definition, True)


def _list_variables(jvm: Py4JBridge) -> list[Any]:
    return jvm.list_of(jvm.field(_variable_manager(jvm), "variables").values().toSeq())


def _variable_manager(jvm: Py4JBridge) -> Any:
    return jvm.state.catalogManager().tempVariableManager()


_SQL_SOURCE = "sql_udf"
_CLASS_SOURCE = "hive"


def capture_functions(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the temporary functions, and a description of each that cannot be captured."""
    entries, unsaved = [], []
    for identifier in jvm.list_of(jvm.state.catalog().listTemporaryFunctions()):
        name = identifier.funcName()
        info = _look_up_info(jvm, name)
        source = info.getSource()
        if source == _SQL_SOURCE:
            body = _normalise_definition(info.getUsage())
            entries.append(make_entry(name, EntryForm.FUNCTION, body))
        elif source == _CLASS_SOURCE:
            body = (
                f"CREATE OR REPLACE TEMPORARY FUNCTION {quote_name(name)}"
                f" AS {quote_string(info.getClassName())}"
            )
            entries.append(make_entry(name, EntryForm.SQL, body))
        else:
            unsaved.append(f"function {name}: it is neither an SQL function nor a Java class")
    return sorted(entries, key=lambda entry: entry.name), unsaved


def restore_function(jvm: Py4JBridge, entry: SnapshotEntry) -> None:
    """Register an SQL function, with the catalog and the settings of its creation."""
    identifier = jvm.type("org.apache.spark.sql.catalyst.FunctionIdentifier")(entry.name)
    constants = jvm.singleton(f"{_CATALOG}.UserDefinedFunction")
    # A catalog stores an SQL function as resources whose URIs are numbered chunks of its JSON.
    chunk = "0" * constants.INDEX_LENGTH() + entry.body
    kind = jvm.singleton(f"{_CATALOG}.FileResource")
    resources = jvm.sequence([jvm.type(f"{_CATALOG}.FunctionResource")(kind, chunk)])
    stored = jvm.type(f"{_CATALOG}.CatalogFunction")(identifier, "sqlFunction.", resources)
    function = jvm.type(f"{_CATALOG}.SQLFunction").fromCatalogFunction(
        stored, jvm.state.sqlParser()
    )
    catalog = jvm.state.catalog()
    if function.isTableFunc():
        catalog.registerSQLTableFunction(function, True)
    else:
        catalog.registerSQLScalarFunction(function, True)


def _normalise_definition(usage: str) -> str:
    """Return the JSON definition sorted and without its creation time.

    A function that was not changed thus has an equal entry in every snapshot.
    """
    definition = json.loads(usage)
    definition.pop("sqlFunction.createTime", None)
    return json.dumps(definition, sort_keys=True)


def _look_up_info(jvm: Py4JBridge, name: str) -> Any:
    catalog = jvm.state.catalog()
    info = catalog.lookupBuiltinOrTempFunction(name)
    if info.isEmpty():
        info = catalog.lookupBuiltinOrTempTableFunction(name)
    return info.get()


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


def capture_views(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the session's temporary views, and a description of each that cannot be captured."""
    catalog = jvm.state.catalog()
    names = jvm.list_of(catalog.getTempViewNames())
    views = [(name, catalog.getRawTempView(name)) for name in names]
    return _capture_views(jvm, views, "TEMPORARY VIEW")


def capture_global_views(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the global temporary views of the driver, in the same form as `capture_views`."""
    catalog = jvm.state.catalog()
    # Creating the lazy manager asks the metastore for a database. Without global views, skip that.
    if jvm.field(catalog, "globalTempViewManager", f"{_CATALOG}.SessionCatalog") is None:
        return [], []
    tables = catalog.listTables(catalog.globalTempDatabase(), "*", False)
    names = [table.table() for table in jvm.list_of(tables)]
    views = [(name, catalog.getRawGlobalTempView(name)) for name in names]
    return _capture_views(jvm, views, "GLOBAL TEMPORARY VIEW")


def restore_view(jvm: Py4JBridge, entry: SnapshotEntry, *, is_global: bool) -> None:
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


RESOURCE_KINDS = ("jars", "files", "archives")


def capture_resources(jvm: Py4JBridge) -> dict[str, list[str]]:
    """Return the original URIs of the added resources, by kind."""
    context = jvm.context
    uris = {
        "jars": context.listJars(),
        "files": context.listFiles(),
        "archives": context.listArchives(),
    }
    return {
        kind: [
            _find_original(jvm, uri)
            for uri in jvm.list_of(uris[kind])
            if uri.rpartition("/")[2] != JAR_NAME
        ]
        for kind in RESOURCE_KINDS
    }


def restore_resource(jvm: Py4JBridge, kind: str, uri: str) -> None:
    """Add a resource to the session; `kind` is one of RESOURCE_KINDS. Raises Py4JError."""
    if kind == "jars":
        jvm.state.resourceLoader().addJar(uri)
    elif kind == "files":
        jvm.context.addFile(uri, True)
    else:
        jvm.context.addArchive(uri)


def _find_original(jvm: Py4JBridge, uri: str) -> str:
    """Return the URI of the file behind a `spark://` URI; any other URI is returned unchanged.

    Under `spark://` URIs, the file server of the driver serves local files to the executors.
    """
    parts = urlsplit(uri)
    if parts.scheme != "spark":
        return uri
    kind, _, name = parts.path.removeprefix("/").partition("/")
    server = jvm.type("org.apache.spark.SparkEnv").get().rpcEnv().fileServer()
    file = jvm.field(server, kind).get(unquote(name))
    return uri if file is None else str(file.toURI().toString())


def capture_namespace(jvm: Py4JBridge) -> tuple[str, list[str]]:
    """Return the current catalog and namespace. A catalog's top-level namespace is empty."""
    manager = jvm.state.catalogManager()
    return manager.currentCatalog().name(), list(manager.currentNamespace())


def restore_namespace(session: SparkSession, catalog: str, namespace: list[str]) -> None:
    """Make a catalog and a namespace current. Raises AnalysisException if one does not exist."""
    session.sql(f"SET CATALOG {quote_name(catalog)}")
    if namespace:
        session.sql("USE " + ".".join(quote_name(part) for part in [catalog, *namespace]))


def make_entry(
    name: str,
    form: EntryForm,
    body: str,
    default: str | None = None,
    view: SessionView | None = None,
) -> SnapshotEntry:
    """Return an entry of any size. `limit_snapshot` decides whether a snapshot can hold it."""
    return SnapshotEntry.model_construct(
        name=name, form=form, body=body, default=default, view=view
    )
