"""Temporary functions: SQL functions, and functions that a Java class implements."""

from __future__ import annotations

import json
from typing import Any

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.state.limits import make_entry
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.session import EntryForm, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"
_SQL_SOURCE = "sql_udf"
_CLASS_SOURCE = "hive"


def capture(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
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


def restore(jvm: Py4JBridge, entry: SnapshotEntry) -> None:
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
