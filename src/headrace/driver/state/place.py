"""The current catalog and namespace."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.driver.state.jvm import Jvm
from headrace.grammar.quoting import name


def take(jvm: Jvm) -> tuple[str, list[str]]:
    """Catalog and namespace; the latter may be empty where the former is not Spark's own."""
    manager = jvm.state.catalogManager()
    return manager.currentCatalog().name(), list(manager.currentNamespace())


def bring_back(session: SparkSession, catalog: str, namespace: list[str]) -> None:
    """Turns there. Raises AnalysisException when it is gone."""
    session.sql(f"SET CATALOG {name(catalog)}")
    if namespace:
        session.sql("USE " + ".".join(name(part) for part in [catalog, *namespace]))
