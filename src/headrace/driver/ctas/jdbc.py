"""Two-phase tables and writes of JDBC catalogs on PostgreSQL.

The rows go to a table with a hidden name. For a CTAS, one database transaction drops the replaced
table, if any, and renames the staged one. For an INSERT, it copies the rows. Any other database
runs both as plain Spark, because not every database can create, drop and rename in a transaction.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import (
    ExistingTable,
    JournalledTable,
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseChange,
    TwoPhaseTable,
    TwoPhaseWrite,
    WriteDefinition,
)
from headrace.driver.ctas.jdbc_connection import JdbcConnection
from headrace.driver.ctas.jdbc_table import JdbcTable, JdbcTableRecord
from headrace.driver.ctas.jdbc_write import JdbcWrite, JdbcWriteRecord, create_jdbc_write
from headrace.driver.ctas.preconditions import check_target
from headrace.errors import DatabaseNotFound
from headrace.model.materialized_view import MATERIALIZED_VIEW_PROPERTY


class SchemaNotFound(DatabaseNotFound):
    """The schema does not exist. Spark passes on the database's own error."""

    condition = "FAILED_JDBC.CREATE_TABLE"
    sqlstate = "HV000"


class JdbcCatalog(TwoPhaseCatalog):
    """`org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog`."""

    kind = "jdbc"

    def __init__(self, session: SparkSession, catalog: str) -> None:
        super().__init__(session, catalog)
        self._connection = JdbcConnection(session, catalog)

    def identity(self) -> str:
        # The query part of the URL may hold a password, and does not identify the database.
        url = self._connection.url.partition("?")[0]
        values = {"kind": self.kind, "url": url}
        # Only the owner of a staged table can publish it or drop it. The database itself serialises
        # the commits of different users.
        return json.dumps(values | ({"user": user} if (user := self._connection.user) else {}))

    def find_view_id(self, path: TablePath) -> str | None:
        with self._connection.open() as database:
            comment = database.find_comment(path)
        prefix = f"{MATERIALIZED_VIEW_PROPERTY}="
        return comment.removeprefix(prefix) if comment and comment.startswith(prefix) else None

    def describe_owner(self, view_id: str) -> str:
        # Spark would send any other property to the database as a part of CREATE TABLE.
        return f"COMMENT '{MATERIALIZED_VIEW_PROPERTY}={view_id}'"

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,  # noqa: ARG002 - makes no difference for JDBC
    ) -> TwoPhaseTable | None:
        if not self._connection.is_postgres or len(path.namespace) != 1:
            return None
        with self._connection.open() as database:
            existing = database.find(path)
            if check_target(
                path,
                None if existing is None else existing.kind,
                lambda namespace: database.has_schema(namespace[0]),
                table,
                ignore_if_exists=ignore_if_exists,
                missing_database=SchemaNotFound,
            ):
                return ExistingTable(path)
        record = JdbcTableRecord(
            target=path, staged=path.sibling(table.staging_name), replaces=existing is not None
        )
        return JdbcTable(record, self._connection)

    def create_two_phase_write(
        self, path: TablePath, write: WriteDefinition
    ) -> TwoPhaseWrite | None:
        return create_jdbc_write(self.session, path, write, self._connection)

    def restore(self, journalled: JournalledTable) -> TwoPhaseChange:
        if "target_oid" in journalled.record:
            claimed = JdbcWriteRecord.model_validate(journalled.record)
            paths = self._paths(journalled, claimed.target)
            return JdbcWrite(self.session, claimed.model_copy(update=paths), self._connection)
        table = JdbcTableRecord.model_validate(journalled.record)
        paths = self._paths(journalled, table.target)
        return JdbcTable(table.model_copy(update=paths), self._connection)

    def _paths(self, journalled: JournalledTable, claimed: TablePath) -> dict[str, TablePath]:
        target = journalled.check_target(claimed, self.catalog)
        return {"target": target, "staged": target.sibling(journalled.staging_name)}
