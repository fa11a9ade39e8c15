"""Temporary functions: of SQL, and of classes."""

from __future__ import annotations

import json
from typing import Any

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.snapshot import EntryForm, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"
_OF_SQL = "sql_udf"
_OF_A_CLASS = "hive"


def capture(jvm: Py4JBridge) -> tuple[list[SnapshotEntry], list[str]]:
    """Every temporary function, and in words those that cannot be taken."""
    taken, unsaved = [], []
    for identifier in jvm.list_of(jvm.state.catalog().listTemporaryFunctions()):
        called = identifier.funcName()
        info = _info(jvm, called)
        source = info.getSource()
        if source == _OF_SQL:
            taken.append(
                SnapshotEntry(name=called, form=EntryForm.FUNCTION, body=_plain(info.getUsage()))
            )
        elif source == _OF_A_CLASS:
            text = f"CREATE OR REPLACE TEMPORARY FUNCTION {quote_name(called)} AS "
            taken.append(
                SnapshotEntry(
                    name=called, form=EntryForm.SQL, body=text + quote_string(info.getClassName())
                )
            )
        else:
            unsaved.append(f"function {called}: it is neither of SQL nor of a class")
    return sorted(taken, key=lambda part: part.name), unsaved


def restore(jvm: Py4JBridge, part: SnapshotEntry) -> None:
    """Makes an SQL function again, with the catalog and the settings that it was made with."""
    identifier = jvm.type("org.apache.spark.sql.catalyst.FunctionIdentifier")(part.name)
    shared = jvm.singleton(f"{_CATALOG}.UserDefinedFunction")
    # The form in which Spark keeps an SQL function in a catalog: numbered pieces of JSON.
    piece = "0" * shared.INDEX_LENGTH() + part.body
    kind = jvm.singleton(f"{_CATALOG}.FileResource")
    resources = jvm.sequence([jvm.type(f"{_CATALOG}.FunctionResource")(kind, piece)])
    stored = jvm.type(f"{_CATALOG}.CatalogFunction")(identifier, "sqlFunction.", resources)
    made = jvm.type(f"{_CATALOG}.SQLFunction").fromCatalogFunction(stored, jvm.state.sqlParser())
    catalog = jvm.state.catalog()
    if made.isTableFunc():
        catalog.registerSQLTableFunction(made, True)
    else:
        catalog.registerSQLScalarFunction(made, True)


def _plain(usage: str) -> str:
    """The same text for the same function, whenever it was made and however Spark orders it."""
    known = json.loads(usage)
    known.pop("sqlFunction.createTime", None)
    return json.dumps(known, sort_keys=True)


def _info(jvm: Py4JBridge, called: str) -> Any:
    catalog = jvm.state.catalog()
    found = catalog.lookupBuiltinOrTempFunction(called)
    if found.isEmpty():
        found = catalog.lookupBuiltinOrTempTableFunction(called)
    return found.get()
