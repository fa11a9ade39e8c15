"""Two-phase tables of JDBC catalogs on PostgreSQL.

The rows go to a table of a hidden name, which one transaction of the database renames: that also
drops what it replaces. Other databases are left to Spark: their catalogs change one by one.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import (
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseTable,
    UntouchedTable,
)
from headrace.driver.ctas.jdbc_connection import JdbcConnection
from headrace.driver.ctas.jdbc_table import JdbcTable, JdbcTableRecord
from headrace.driver.ctas.preconditions import check_target


class JdbcCatalog(TwoPhaseCatalog):
    """`org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog`."""

    kind = "jdbc"

    def __init__(self, session: SparkSession, catalog: str) -> None:
        super().__init__(session, catalog)
        self._connection = JdbcConnection(session, catalog)

    def identity(self) -> str:
        # What follows the question mark may be a password, and does not say which database it is.
        url = self._connection.url.partition("?")[0]
        return json.dumps({"kind": self.kind, "url": url})

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,  # noqa: ARG002 - all the same here
    ) -> TwoPhaseTable | None:
        if not self._connection.url.startswith("jdbc:postgresql:") or len(path.namespace) != 1:
            return None
        with self._connection.open() as database:
            there = database.find(path)
            if check_target(
                path,
                None if there is None else there.kind,
                lambda namespace: database.has_schema(namespace[0]),
                table,
                ignore_if_exists=ignore_if_exists,
            ):
                return UntouchedTable(path)
        record = JdbcTableRecord(
            target=path, staged=path.beside(table.own_name), replaces=there is not None
        )
        return JdbcTable(record, self._connection)

    def restore(self, record: dict[str, Any]) -> TwoPhaseTable:
        known = JdbcTableRecord.model_validate(record)
        here = {"target": known.target.within(self.catalog)}
        here["staged"] = known.staged.within(self.catalog)
        return JdbcTable(known.model_copy(update=here), self._connection)
