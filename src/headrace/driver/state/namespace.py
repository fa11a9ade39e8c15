"""The current catalog and namespace."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_name


def capture(jvm: Py4JBridge) -> tuple[str, list[str]]:
    """Return the current catalog and namespace. A catalog's top-level namespace is empty."""
    manager = jvm.state.catalogManager()
    return manager.currentCatalog().name(), list(manager.currentNamespace())


def restore(session: SparkSession, catalog: str, namespace: list[str]) -> None:
    """Make a catalog and a namespace current. Raises AnalysisException if one does not exist."""
    session.sql(f"SET CATALOG {quote_name(catalog)}")
    if namespace:
        session.sql("USE " + ".".join(quote_name(part) for part in [catalog, *namespace]))
