"""`LIST TABLES` and the like: the rows that say what a catalog holds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java
from headrace.grammar.metadata import ListedObjects, ListObjects, pattern_to_regex

LIST_STATEMENTS = frozenset(f"LIST {objects}" for objects in ListedObjects)
"""First words of these statements."""
_SESSION_CATALOG = "spark_catalog"
_NAMES = {
    ListedObjects.SCHEMAS: ("catalog", "schema"),
    ListedObjects.TABLES: ("catalog", "schema", "name", "type", "comment"),
    ListedObjects.COLUMNS: ("catalog", "schema", "name", "columns"),
    ListedObjects.FUNCTIONS: ("catalog", "schema", "name", "class"),
}
"""Columns of the result. `columns` is the schema of a table as Spark's JSON, or NULL if Spark
cannot read the table. With a pattern for columns, the metadata of each has its
`headrace.position`."""


def list_objects(session: SparkSession, command: ListObjects) -> DataFrame:
    """Return the rows of a statement. Raises Py4JError and PySparkException."""
    bridge = Py4JBridge(session)
    java = compile_java(bridge.root, "CatalogObjects")
    spark = session._jsparkSession  # noqa: SLF001 - there is no other access
    catalog = command.catalog or session.catalog.currentCatalog()
    schema, name, column = map(pattern_to_regex, (command.schema, command.name, command.column))
    has_column = command.column is not None
    match command.objects:
        case ListedObjects.SCHEMAS:
            content = java.listSchemas(spark, catalog, schema)
        case ListedObjects.FUNCTIONS:
            content = java.listFunctions(spark, catalog, schema, name)
        case ListedObjects.TABLES:
            content = java.listTables(spark, catalog, schema, name, None, has_column)
        case ListedObjects.COLUMNS:
            content = java.listTables(spark, catalog, schema, name, column, has_column)
    return _to_frame(session, json.loads(content), _NAMES[command.objects])


def _to_frame(
    session: SparkSession, rows: list[dict[str, Any]], names: tuple[str, ...]
) -> DataFrame:
    columns = [pa.array([row.get(name) for row in rows], pa.string()) for name in names]
    return session.createDataFrame(pa.Table.from_arrays(columns, list(names)))
