"""A catalog of Spark's DataSource V2, as far as two-phase tables need it looked at and changed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.driver.ctas.base import TablePath
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_string

_CONNECTOR = "org.apache.spark.sql.connector.catalog"


class V2Catalog:
    """The catalog of a name in a session. Every call may raise Py4JError or PySparkException."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session = session
        self.jvm = Py4JBridge(session)
        self._catalog = catalog

    @cached_property
    def java(self) -> Any:
        """The JVM's object."""
        return self.jvm.catalog(self._catalog)

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        return bool(self.java.namespaceExists(self.jvm.array(list(namespace))))

    def kind_of(self, path: TablePath) -> str | None:
        """`table` or `view`; None when there is neither, as it is now."""
        identifier = self.identifier(path)
        self.java.invalidateTable(identifier)
        if self.java.tableExists(identifier):
            return "table"
        try:
            return "view" if self.java.viewExists(identifier) else None
        except Py4JError:
            # A catalog without views.
            return None

    def properties(self, path: TablePath) -> dict[str, str]:
        """The properties of a table as they are now; none where there is no table."""
        identifier = self.identifier(path)
        # Not only what this session has seen of it.
        self.java.invalidateTable(identifier)
        if not self.java.tableExists(identifier):
            return {}
        return self.jvm.java_map(self.java.loadTable(identifier).properties())

    def set_properties(self, path: TablePath, values: dict[str, str | None]) -> None:
        """Sets properties, and takes away those of None."""
        kept = {key: value for key, value in values.items() if value is not None}
        gone = [quote_string(key) for key in values.keys() - kept]
        alter = f"ALTER TABLE {path.quoted()}"
        if kept:
            said = ", ".join(
                f"{quote_string(key)} = {quote_string(value)}" for key, value in kept.items()
            )
            self._session.sql(f"{alter} SET TBLPROPERTIES ({said})")
        if gone:
            self._session.sql(f"{alter} UNSET TBLPROPERTIES IF EXISTS ({', '.join(gone)})")

    def identifier(self, path: TablePath) -> Any:
        made: Any = self.jvm.type(f"{_CONNECTOR}.Identifier")
        return made.of(self.jvm.array(list(path.namespace)), path.table)
