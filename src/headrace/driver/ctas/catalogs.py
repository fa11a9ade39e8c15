"""The implementations of two-phase tables that there are, and which one a table gets."""

from __future__ import annotations

from importlib.metadata import entry_points

from pyspark.sql import SparkSession

from headrace.driver.ctas.contract import TwoPhaseCatalog
from headrace.driver.ctas.find import Ctas
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.errors import CatalogError

_GROUP = "headrace.catalogs"
"""Entry points: the name of each is the Java class of the catalogs that it is for."""


def catalog_for(ctas: Ctas) -> TwoPhaseCatalog | None:
    """The implementation for a statement's target; None where there is none."""
    if ctas.own_catalog:
        return SessionCatalog(ctas.session, ctas.path.catalog)
    java_class = ctas.analysed.name().catalog().getClass().getName()
    for found in entry_points(group=_GROUP, name=java_class):
        made: TwoPhaseCatalog = found.load()(ctas.session, ctas.path.catalog)
        return made
    return None


def catalogs_in(session: SparkSession) -> list[TwoPhaseCatalog]:
    """Those of a session whose tables can be finished here."""
    return [SessionCatalog(session, "spark_catalog")]


def catalog_of(session: SparkSession, kind: str, catalog: str) -> TwoPhaseCatalog:
    """The implementation that wrote a record. Raises CatalogError where it is not installed."""
    known = [SessionCatalog, *(found.load() for found in entry_points(group=_GROUP))]
    for one in known:
        if one.kind == kind:
            made: TwoPhaseCatalog = one(session, catalog)
            return made
    raise CatalogError(
        f"A table of catalog {catalog!r} was left unfinished, and nothing here knows how to finish"
        f" a {kind!r} one: the driver that began it had an entry point for it in {_GROUP!r}."
    )
