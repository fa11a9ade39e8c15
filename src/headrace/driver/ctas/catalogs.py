"""The implementations of two-phase tables that there are, and which one a table gets."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import TwoPhaseCatalog, TwoPhaseTable
from headrace.driver.ctas.bounded_stream import StreamedTable, split_record
from headrace.driver.ctas.delta import DeltaCatalog
from headrace.driver.ctas.detect import Ctas
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.iceberg import IcebergCatalog
from headrace.driver.ctas.jdbc import JdbcCatalog
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.errors import CatalogError
from headrace.model.transaction import Staged

_GROUP = "headrace.catalogs"
"""Entry points: the name of each is the Java class of the catalogs that it is for."""
_OWN: dict[str, type[TwoPhaseCatalog]] = {
    "org.apache.iceberg.spark.SparkCatalog": IcebergCatalog,
    "org.apache.spark.sql.delta.catalog.DeltaCatalog": DeltaCatalog,
    "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog": JdbcCatalog,
}
_SPARKS = "spark_catalog"
_CONF = "spark.sql.catalog."


@lru_cache(maxsize=1)
def implementations() -> dict[str, type[TwoPhaseCatalog]]:
    """By Java class; looked for once, and what is installed goes before Headrace's own."""
    return _OWN | {one.name: one.load() for one in entry_points(group=_GROUP)}


def catalog_for(ctas: Ctas) -> TwoPhaseCatalog | None:
    """The implementation for a statement's target; None where there is none."""
    if ctas.own_catalog:
        return SessionCatalog(ctas.session, ctas.path.catalog)
    found = implementations().get(ctas.analysed.name().catalog().getClass().getName())
    return None if found is None else found(ctas.session, ctas.path.catalog)


def restore_table(session: SparkSession, staged: Staged) -> tuple[TwoPhaseCatalog, TwoPhaseTable]:
    """The table that another process has left, in the same catalog, whatever its name here.

    Raises CatalogError where nothing here knows how to finish it.
    """
    place, record = split_record(staged.record)
    for catalog in _of_kind(session, staged):
        if catalog.identity() == staged.identity:
            table = catalog.restore(record)
            return catalog, table if place is None else StreamedTable(
                table, place, HadoopFiles(session)
            )
    raise CatalogError(
        f"A table of catalog {staged.catalog!r} was left unfinished, and nothing here knows how to"
        f" finish a {staged.kind!r} one: the driver that began it had its catalog, and an"
        f" implementation for it, here or in {_GROUP!r}."
    )


def catalogs_in(session: SparkSession) -> list[TwoPhaseCatalog]:
    """Those of a session whose tables can be finished here."""
    own: list[TwoPhaseCatalog] = [SessionCatalog(session, _SPARKS)]
    return own + [made(session, name) for name, made in _configured(session)]


def _of_kind(session: SparkSession, staged: Staged) -> list[TwoPhaseCatalog]:
    """One of the name it was left in comes first."""
    found: list[TwoPhaseCatalog] = []
    if staged.kind == SessionCatalog.kind:
        found.append(SessionCatalog(session, _SPARKS))
    named = sorted(_configured(session), key=lambda one: one[0] != staged.catalog)
    return found + [made(session, name) for name, made in named if made.kind == staged.kind]


def _configured(session: SparkSession) -> list[tuple[str, type[TwoPhaseCatalog]]]:
    """Names of the session's catalogs and what implements them."""
    known = implementations()
    return [
        (key.removeprefix(_CONF), known[value])
        for key, value in session.conf.getAll.items()
        if key.startswith(_CONF) and value in known
    ]
