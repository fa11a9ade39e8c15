"""Registry of the implementations of TwoPhaseCatalog, by the Java class of a catalog."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from headrace.driver.ctas.base import (
    JournalledTable,
    TwoPhaseCatalog,
    TwoPhaseChange,
    TwoPhaseTable,
)
from headrace.driver.ctas.bounded_stream import StreamedTable, split_record
from headrace.driver.ctas.delta import DeltaCatalog
from headrace.driver.ctas.iceberg import IcebergCatalog
from headrace.driver.ctas.jdbc import JdbcCatalog
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.view_switch import SwitchRecord, restore_switch, split_switch_record
from headrace.driver.spark_version.catalogs import DELTA_CATALOG, ICEBERG_CATALOG, JDBC_CATALOG
from headrace.driver.spark_version.ctas_plan import Ctas
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.written_rows import RowChange
from headrace.errors import CatalogError
from headrace.model.messages import JournalEntry
from headrace.model.transaction import Staged

_GROUP = "headrace.catalogs"
"""Group of entry points. The name of an entry point is the Java class of a catalog."""
_BUILT_IN: dict[str, type[TwoPhaseCatalog]] = {
    ICEBERG_CATALOG: IcebergCatalog,
    DELTA_CATALOG: DeltaCatalog,
    JDBC_CATALOG: JdbcCatalog,
}
_SESSION_CATALOG = "spark_catalog"
_CONF_PREFIX = "spark.sql.catalog."


@lru_cache(maxsize=1)
def load_implementations() -> dict[str, type[TwoPhaseCatalog]]:
    """Return all implementations by Java class. Entry points override Headrace's own.

    The entry points are read once per process.
    """
    installed = {entry.name: entry.load() for entry in entry_points(group=_GROUP)}
    return _BUILT_IN | installed


def find_catalog(ctas: Ctas) -> TwoPhaseCatalog | None:
    """Return the implementation for the target of a CTAS, or None if there is none."""
    if ctas.is_session_catalog:
        return SessionCatalog(ctas.session, ctas.path.catalog)
    java_class = ctas.catalog_class
    implementation = load_implementations().get(java_class)
    return None if implementation is None else implementation(ctas.session, ctas.path.catalog)


def find_write_catalog(session: SparkSession, change: RowChange) -> TwoPhaseCatalog | None:
    """Return the implementation for the target of a write, or None if there is none."""
    catalog = change.path.catalog
    if change.catalog_class is None:
        return SessionCatalog(session, catalog) if catalog == _SESSION_CATALOG else None
    implementation = load_implementations().get(change.catalog_class)
    return None if implementation is None else implementation(session, catalog)


def restore_table(
    session: SparkSession, entry: JournalEntry
) -> tuple[TwoPhaseCatalog, TwoPhaseChange]:
    """Rebuild the table of another driver, whose catalog may have another name in this session.

    Raises:
        CatalogError: this session does not have the catalog, or no implementation for it; or the
            record contradicts the journal.
    """
    staged = entry.staged
    journalled = JournalledTable(
        transaction=entry.id,
        epoch=entry.staged_epoch,
        target=staged.target,
        location=staged.location,
        record=staged.record,
    )
    switch, stream_location, record = _split_record(journalled)
    journalled = replace(journalled, record=record)
    for catalog in _catalogs_of_kind(session, staged):
        if catalog.identity() != staged.identity:
            continue
        change = _restore(catalog, journalled)
        if stream_location is None and switch is None:
            return catalog, change
        if not isinstance(change, TwoPhaseTable):
            raise journalled.refuse("a write to a table has no stream and no view")
        table = _restore_stream(session, change, stream_location)
        if switch is not None:
            table = restore_switch(session, switch, table, journalled, catalog.catalog, entry.view)
        return catalog, table
    raise CatalogError(
        f"The unfinished table in catalog {staged.catalog!r} cannot be recovered: this driver does"
        f" not have that catalog, or no implementation of kind {staged.kind!r}. Configure the"
        f" catalog in this session and install its implementation (entry points {_GROUP!r})."
    )


def _split_record(
    journalled: JournalledTable,
) -> tuple[SwitchRecord | None, str | None, dict[str, Any]]:
    """Return what a record says of a view and of a stream, and the record of the catalog."""
    try:
        switch, record = split_switch_record(journalled.record)
        stream_location, record = split_record(record)
    except ValidationError as error:
        raise journalled.refuse("it is not a record of a table from a stream or a view") from error
    if stream_location is not None and not stream_location.endswith(
        f"/streams/{journalled.transaction}"
    ):
        raise journalled.refuse(f"it names the directory {stream_location}")
    return switch, stream_location, record


def _restore_stream(
    session: SparkSession, table: TwoPhaseTable, stream_location: str | None
) -> TwoPhaseTable:
    if stream_location is None:
        return table
    return StreamedTable(table, stream_location, HadoopFiles(session))


def _restore(catalog: TwoPhaseCatalog, journalled: JournalledTable) -> TwoPhaseChange:
    try:
        return catalog.restore(journalled)
    except ValidationError as error:
        raise journalled.refuse("it is not a record of this catalog") from error


def list_catalogs(session: SparkSession) -> list[TwoPhaseCatalog]:
    """Return the catalogs of a session whose tables can be recovered in it."""
    catalogs: list[TwoPhaseCatalog] = [SessionCatalog(session, _SESSION_CATALOG)]
    configured = _configured_catalogs(session)
    return catalogs + [implementation(session, name) for name, implementation in configured]


def _catalogs_of_kind(session: SparkSession, staged: Staged) -> list[TwoPhaseCatalog]:
    """Return the catalogs of the staged table's kind; a catalog of the same name comes first."""
    catalogs: list[TwoPhaseCatalog] = []
    if staged.kind == SessionCatalog.kind:
        catalogs.append(SessionCatalog(session, _SESSION_CATALOG))
    configured = sorted(_configured_catalogs(session), key=lambda item: item[0] != staged.catalog)
    return catalogs + [
        implementation(session, name)
        for name, implementation in configured
        if implementation.kind == staged.kind
    ]


def _configured_catalogs(session: SparkSession) -> list[tuple[str, type[TwoPhaseCatalog]]]:
    """Return name and implementation of each configured catalog that has an implementation."""
    implementations = load_implementations()
    return [
        (key.removeprefix(_CONF_PREFIX), implementations[value])
        for key, value in session.conf.getAll.items()
        if key.startswith(_CONF_PREFIX) and value in implementations
    ]
