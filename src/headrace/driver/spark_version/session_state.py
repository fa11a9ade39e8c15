"""The state of a session: captured from Spark, and restored in another session.

A temporary view of SQL is captured as Spark's own metadata: its text, and the catalog, namespace
and settings of its creation. A view created with `USING` has no text, so its statement is written
anew from the options of its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java, list_of, plan_class_name
from headrace.driver.spark_version.commit_protocol import without_selection
from headrace.driver.spark_version.shipped_classes import JAR_NAME
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.session import EntryForm, SessionView, Snapshot, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"


class RestorableState:
    """The state of one session. Every call may raise Py4JError."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._jvm = Py4JBridge(session)

    def clone(self) -> SparkSession:
        """Return Spark's clone of the session: without variables, in the first catalog."""
        return SparkSession(self._context, self._jvm.session.cloneSession())

    def capture(self) -> Snapshot:
        """Return the whole state, of any size, with what the session has from its start."""
        resources, (catalog, namespace) = self.capture_resources(), self.capture_namespace()
        functions, unsaved_functions = self._capture_functions()
        views, unsaved_views = self._capture_views()
        global_views, unsaved_global_views = self._capture_global_views()
        return Snapshot.model_construct(
            conf=self.read_conf(),
            catalog=catalog,
            namespace=namespace,
            variables=self._capture_variables(),
            functions=functions,
            views=views,
            global_views=global_views,
            unsaved=unsaved_functions + unsaved_views + unsaved_global_views,
            jars=resources["jars"],
            files=resources["files"],
            archives=resources["archives"],
        )

    def read_conf(self) -> dict[str, str]:
        """Return the configuration of the session."""
        return without_selection(self._jvm.java_map(self._jvm.session.conf().getAllAsJava()))

    def copy_variables(self, source: RestorableState) -> None:
        """Declare the variables of another session of the same JVM in this one."""
        manager = _variable_manager(self._jvm)
        for definition in _list_variables(source._jvm):
            manager.create(self._jvm.sequence([definition.identifier().name()]), definition, True)

    def _capture_variables(self) -> list[SnapshotEntry]:
        """Return all variables. Their values are serialised literals, exact for any type."""
        entries = [
            make_entry(
                definition.identifier().name(),
                EntryForm.JAVA,
                self._jvm.serialize(definition.currentValue()),
                definition.defaultValueSQL(),
            )
            for definition in _list_variables(self._jvm)
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def restore_variable(self, entry: SnapshotEntry) -> None:
        """Declare a variable with its captured value and default."""
        namespace = self._jvm.array(["session"])
        identifier_class = self._jvm.type("org.apache.spark.sql.connector.catalog.Identifier")
        identifier = identifier_class.of(namespace, entry.name)
        definition_class = self._jvm.type(f"{_CATALOG}.VariableDefinition")
        definition = definition_class(identifier, entry.default, self._jvm.deserialize(entry.body))
        _variable_manager(self._jvm).create(self._jvm.sequence([entry.name]), definition, True)

    def _capture_functions(self) -> tuple[list[SnapshotEntry], list[str]]:
        """Return the temporary functions, and a description of each that cannot be captured."""
        entries, unsaved = [], []
        for identifier in list_of(self._jvm.state.catalog().listTemporaryFunctions()):
            name = identifier.funcName()
            info = _look_up_info(self._jvm, name)
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

    def restore_function(self, entry: SnapshotEntry) -> None:
        """Register an SQL function, with the catalog and the settings of its creation."""
        jvm = self._jvm
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

    def _capture_views(self) -> tuple[list[SnapshotEntry], list[str]]:
        """Return the temporary views, and a description of each that cannot be captured."""
        catalog = self._jvm.state.catalog()
        names = list_of(catalog.getTempViewNames())
        views = [(name, catalog.getRawTempView(name)) for name in names]
        return _describe_views(self._jvm, views, "TEMPORARY VIEW")

    def _capture_global_views(self) -> tuple[list[SnapshotEntry], list[str]]:
        """Return the global temporary views of the driver, in the same form as `_capture_views`."""
        catalog = self._jvm.state.catalog()
        # Creating the lazy manager asks the metastore for a database: not without global views.
        if self._jvm.field(catalog, "globalTempViewManager", f"{_CATALOG}.SessionCatalog") is None:
            return [], []
        tables = catalog.listTables(catalog.globalTempDatabase(), "*", False)
        names = [table.table() for table in list_of(tables)]
        views = [(name, catalog.getRawGlobalTempView(name)) for name in names]
        return _describe_views(self._jvm, views, "GLOBAL TEMPORARY VIEW")

    def restore_view(self, entry: SnapshotEntry, *, is_global: bool) -> None:
        """Create an SQL view from its metadata. The relations that it reads need not exist."""
        view_class = self._jvm.type(f"{_CATALOG}.TemporaryViewRelation")
        view = view_class(self._jvm.deserialize(entry.body), self._jvm.none())
        catalog = self._jvm.state.catalog()
        create = catalog.createGlobalTempView if is_global else catalog.createTempView
        create(entry.name, view, True)

    def capture_resources(self) -> dict[str, list[str]]:
        """Return the original URIs of the added resources, by kind."""
        context = self._jvm.context
        uris = {
            "jars": context.listJars(),
            "files": context.listFiles(),
            "archives": context.listArchives(),
        }
        return {
            kind: [
                _find_original(self._jvm, uri)
                for uri in list_of(uris[kind])
                if uri.rpartition("/")[2] != JAR_NAME
            ]
            for kind in RESOURCE_KINDS
        }

    def restore_resource(self, kind: str, uri: str) -> None:
        """Add a resource to the session; `kind` is one of RESOURCE_KINDS. Raises Py4JError."""
        if kind == "jars":
            self._jvm.state.resourceLoader().addJar(uri)
        elif kind == "files":
            self._jvm.context.addFile(uri, True)
        else:
            self._jvm.context.addArchive(uri)

    def capture_namespace(self) -> tuple[str, list[str]]:
        """Return the current catalog and namespace. A catalog's top-level namespace is empty."""
        manager = self._jvm.state.catalogManager()
        return manager.currentCatalog().name(), list(manager.currentNamespace())


def _list_variables(jvm: Py4JBridge) -> list[Any]:
    return list_of(jvm.field(_variable_manager(jvm), "variables").values().toSeq())


def _variable_manager(jvm: Py4JBridge) -> Any:
    return jvm.state.catalogManager().tempVariableManager()


_SQL_SOURCE = "sql_udf"
_CLASS_SOURCE = "hive"


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


def _describe_views(
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


def install_rules(
    session: SparkSession,
    options: Mapping[str, tuple[str, str, str]],
    rules: Sequence[tuple[str, str]],
) -> None:
    """Let Spark check options, and refuse SET as the rules say.

    Args:
        options: Pattern, message and documentation of each option, by key.
        rules: Pattern of keys, and the message of a refusal.
    """
    jvm = Py4JBridge(session)
    java = _load_session_conf(jvm)
    columns = [[*column] for column in zip(*options.values(), strict=True)]
    java.register(jvm.array([*options]), *map(jvm.array, columns))
    java.install(
        jvm.session,
        jvm.array([pattern for pattern, _message in rules]),
        jvm.array([message for _pattern, message in rules]),
    )


@contextmanager
def override_for_statement(session: SparkSession, overrides: Mapping[str, str]) -> Iterator[None]:
    """Set the configuration of a session for one statement, and restore the earlier one afterwards.

    A key that the statement itself sets or resets keeps what the statement has done, as every SET.
    Raises PySparkException if Spark refuses a value.
    """
    if not overrides:
        yield
        return
    jvm = Py4JBridge(session)
    java = _load_session_conf(jvm)
    keys, values = jvm.array(list(overrides)), jvm.array(list(overrides.values()))
    state = java.override(jvm.session, keys, values)
    try:
        yield
    finally:
        java.restore(jvm.session, state)


def _load_session_conf(jvm: Py4JBridge) -> Any:
    """Return the Java object that works on the configuration of sessions."""
    return compile_java(jvm.root, "SessionConf")
