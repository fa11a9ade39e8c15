"""Access to the tables of a DataSource V2 catalog."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.driver.ctas.base import RelationKind, TablePath
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_string

_CONNECTOR = "org.apache.spark.sql.connector.catalog"


class V2Catalog:
    """One catalog of a session. Every call may raise Py4JError or PySparkException."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session = session
        self.jvm = Py4JBridge(session)
        self._catalog = catalog

    @cached_property
    def java_catalog(self) -> Any:
        """Spark's CatalogPlugin object."""
        return self.jvm.catalog(self._catalog)

    def kind_of(self, path: TablePath) -> RelationKind | None:
        """Return the kind of the relation with this name, past all caches; None if it is free."""
        identifier = self.identifier(path)
        self.java_catalog.invalidateTable(identifier)
        if self.java_catalog.tableExists(identifier):
            return "table"
        try:
            return "view" if self.java_catalog.viewExists(identifier) else None
        except Py4JError:
            # The catalog does not implement Spark's ViewCatalog.
            return None

    def properties(self, path: TablePath) -> dict[str, str]:
        """Return the current table properties. Empty if the table does not exist."""
        identifier = self.identifier(path)
        # Other sessions may have changed the table since this session cached it.
        self.java_catalog.invalidateTable(identifier)
        if not self.java_catalog.tableExists(identifier):
            return {}
        return self.jvm.java_map(self.java_catalog.loadTable(identifier).properties())

    def set_properties(self, path: TablePath, values: dict[str, str | None]) -> None:
        """Set table properties, and remove each property whose value is None."""
        changed = {key: value for key, value in values.items() if value is not None}
        removed = [quote_string(key) for key in values.keys() - changed]
        alter = f"ALTER TABLE {path.sql_name}"
        if changed:
            assignments = ", ".join(
                f"{quote_string(key)} = {quote_string(value)}" for key, value in changed.items()
            )
            self._session.sql(f"{alter} SET TBLPROPERTIES ({assignments})")
        if removed:
            self._session.sql(f"{alter} UNSET TBLPROPERTIES IF EXISTS ({', '.join(removed)})")

    def identifier(self, path: TablePath) -> Any:
        """Return Spark's Identifier of a table."""
        identifier_class: Any = self.jvm.type(f"{_CONNECTOR}.Identifier")
        return identifier_class.of(self.jvm.array(list(path.namespace)), path.table)
