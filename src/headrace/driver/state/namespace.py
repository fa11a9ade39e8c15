"""The current catalog and namespace."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_name


def capture(jvm: Py4JBridge) -> tuple[str, list[str]]:
    """Catalog and namespace; the latter may be empty where the former is not Spark's own."""
    manager = jvm.state.catalogManager()
    return manager.currentCatalog().name(), list(manager.currentNamespace())


def restore(session: SparkSession, catalog: str, namespace: list[str]) -> None:
    """Turns there. Raises AnalysisException when it is gone."""
    session.sql(f"SET CATALOG {quote_name(catalog)}")
    if namespace:
        session.sql("USE " + ".".join(quote_name(part) for part in [catalog, *namespace]))
