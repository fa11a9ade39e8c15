"""The state of a session: captured from Spark, and restored in another session.

A temporary view of SQL is captured as Spark's own metadata: its text, and the catalog, namespace
and settings of its creation. A view created with `USING` has no text, so its statement is written
anew from the options of its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java
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

    def capture(self, *, with_global_views: bool = True) -> Snapshot:
        """Return the whole state, of any size, with what the session has from its start."""
        captured = json.loads(self._java.capture(self._jvm.session, with_global_views))
        resources = _without_own_jar(captured)
        functions, unsaved_functions = _describe_functions(captured["functions"])
        views, unsaved_views = _describe_views(captured["views"], "TEMPORARY VIEW")
        global_views, unsaved_global_views = _describe_views(
            captured["global_views"], "GLOBAL TEMPORARY VIEW"
        )
        return Snapshot.model_construct(
            conf=without_selection(captured["conf"]),
            catalog=captured["catalog"],
            namespace=captured["namespace"],
            variables=_describe_variables(captured["variables"]),
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
        self._java.copyVariables(source._jvm.session, self._jvm.session)

    def restore_variable(self, entry: SnapshotEntry) -> None:
        """Declare a variable with its captured value and default."""
        namespace = self._jvm.array(["session"])
        identifier_class = self._jvm.type("org.apache.spark.sql.connector.catalog.Identifier")
        identifier = identifier_class.of(namespace, entry.name)
        definition_class = self._jvm.type(f"{_CATALOG}.VariableDefinition")
        definition = definition_class(identifier, entry.default, self._jvm.deserialize(entry.body))
        _variable_manager(self._jvm).create(self._jvm.sequence([entry.name]), definition, True)

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

    def restore_view(self, entry: SnapshotEntry, *, is_global: bool) -> None:
        """Create an SQL view from its metadata. The relations that it reads need not exist."""
        view_class = self._jvm.type(f"{_CATALOG}.TemporaryViewRelation")
        view = view_class(self._jvm.deserialize(entry.body), self._jvm.none())
        catalog = self._jvm.state.catalog()
        create = catalog.createGlobalTempView if is_global else catalog.createTempView
        create(entry.name, view, True)

    def capture_resources(self) -> dict[str, list[str]]:
        """Return the original URIs of the added resources, by kind."""
        return _without_own_jar(json.loads(self._java.captureResources(self._jvm.session)))

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
        captured = json.loads(self._java.captureNamespace(self._jvm.session))
        return captured["catalog"], captured["namespace"]

    @cached_property
    def _java(self) -> Any:
        return compile_java(self._jvm.root, "SessionState")


RESOURCE_KINDS = ("jars", "files", "archives")


def _without_own_jar(captured: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the added resources by kind, without the classes of Headrace itself."""
    return {
        kind: [uri for uri in captured[kind] if uri.rpartition("/")[2] != JAR_NAME]
        for kind in RESOURCE_KINDS
    }


def _variable_manager(jvm: Py4JBridge) -> Any:
    return jvm.state.catalogManager().tempVariableManager()


def _describe_variables(variables: list[dict[str, str]]) -> list[SnapshotEntry]:
    """Return an entry for each variable. Values are serialised literals, exact for any type."""
    entries = [
        make_entry(each["name"], EntryForm.JAVA, each["value"], each["default"])
        for each in variables
    ]
    return sorted(entries, key=lambda entry: entry.name)


_SQL_SOURCE = "sql_udf"
_CLASS_SOURCE = "hive"


def _describe_functions(functions: list[dict[str, str]]) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the temporary functions, and a description of each that cannot be captured."""
    entries, unsaved = [], []
    for function in functions:
        name = function["name"]
        if function["source"] == _SQL_SOURCE:
            body = _normalise_definition(function["usage"])
            entries.append(make_entry(name, EntryForm.FUNCTION, body))
        elif function["source"] == _CLASS_SOURCE:
            body = (
                f"CREATE OR REPLACE TEMPORARY FUNCTION {quote_name(name)}"
                f" AS {quote_string(function['class'])}"
            )
            entries.append(make_entry(name, EntryForm.SQL, body))
        else:
            unsaved.append(f"function {name}: it is neither an SQL function nor a Java class")
    return sorted(entries, key=lambda entry: entry.name), unsaved


def _normalise_definition(usage: str) -> str:
    """Return the JSON definition sorted and without its creation time.

    A function that was not changed thus has an equal entry in every snapshot.
    """
    definition = json.loads(usage)
    definition.pop("sqlFunction.createTime", None)
    return json.dumps(definition, sort_keys=True)


_SCOPE = "view.catalogAndNamespace."
_QUERY = "view.query.out."
_CONF = "view.sqlConfig."
_READS = "view.referredTempViewNames"
"""Properties of a view, from Spark's CatalogTable."""


def _describe_views(
    views: list[dict[str, Any]], kind: str
) -> tuple[list[SnapshotEntry], list[str]]:
    """Return the temporary views, and a description of each that cannot be captured."""
    entries, unsaved = [], []
    for view in views:
        name = view["name"]
        if "metadata" in view:
            query = None
            if view["text"] is not None:
                query = _read_properties(name, view["text"], view["columns"], view["properties"])
            entries.append(make_entry(name, EntryForm.JAVA, view["metadata"], view=query))
        elif "source" in view:
            create = f"CREATE OR REPLACE {kind} {quote_name(name)}"
            entries.append(make_entry(name, EntryForm.SQL, _write_statement(view, create)))
        else:
            unsaved.append(f"view {name}: Spark keeps no SQL text for it")
    return sorted(entries, key=lambda entry: entry.name), unsaved


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


def _write_statement(view: Mapping[str, Any], create: str) -> str:
    """Return the statement that creates a view `USING` files or JDBC."""
    columns = f" ({view['columns']})" if view["columns"] else ""
    options = ", ".join(
        f"{quote_string(key)} {quote_string(value)}"
        for key, value in sorted(view["options"].items())
    )
    return f"{create}{columns} USING {view['source']} OPTIONS ({options})"


def read_namespace(session: SparkSession) -> tuple[str, list[str]]:
    """Return the current catalog and namespace, see `RestorableState.capture_namespace`."""
    return RestorableState(session).capture_namespace()


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


def set_initial_conf(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Set a configuration to which RESET returns. Raises PySparkException and Py4JError.

    If Spark refuses a key, the error names it.
    """
    for key, value in conf.items():
        session.conf.set(key, value)
    jvm = Py4JBridge(session)
    _load_session_conf(jvm).setInitial(jvm.session, jvm.mapping(dict(conf)))


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
