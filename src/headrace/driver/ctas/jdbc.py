"""Two-phase tables and writes of JDBC catalogs on PostgreSQL.

The rows go to a table with a hidden name. For a CTAS, one database transaction drops the replaced
table, if any, and renames the staged one. For an INSERT, it copies the rows. Any other database
runs both as plain Spark, because not every database can create, drop and rename in a transaction.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import (
    ExistingTable,
    JournalledTable,
    TableDefinition,
    TwoPhaseCatalog,
    TwoPhaseChange,
    TwoPhaseTable,
    TwoPhaseWrite,
    WriteDefinition,
)
from headrace.driver.ctas.jdbc_connection import (
    DatabaseRelation,
    JdbcConnection,
    JdbcTransaction,
)
from headrace.driver.ctas.preconditions import (
    check_target,
    staged_table_missing_error,
    table_exists_error,
)
from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.ctas_plan import WriteTarget
from headrace.driver.spark_version.parameters import empty_frame, frame_of_plan
from headrace.driver.spark_version.written_rows import find_write_mode
from headrace.errors import CatalogError, DatabaseNotFound
from headrace.model.materialized_view import MATERIALIZED_VIEW_PROPERTY


class JdbcWriteRecord(BaseModel):
    """Journal record of a JdbcWrite."""

    target: TablePath
    staged: TablePath
    overwrites: bool
    """Whether the commit removes the rows that the target has."""
    target_oid: str
    """PostgreSQL's id of the target."""
    staged_oid: str | None = None
    """PostgreSQL's id of the staged table. None until all rows are written."""


class JdbcWrite(TwoPhaseWrite):
    """A two-phase write to a table in PostgreSQL."""

    def __init__(
        self,
        session: SparkSession,
        record: JdbcWriteRecord,
        connection: JdbcConnection,
        query: Any | None = None,
    ) -> None:
        """Create a write.

        Args:
            query: Spark's analysed query of the rows; None for another driver's write.
        """
        self._session = session
        self._record = record
        self._connection = connection
        self._query = query
        self._commit_may_have_begun = query is None
        self.shares_target = not record.overwrites

    def begin(self) -> None:
        with self._connection.open() as database:
            database.create_like(self._record.staged, self._record.target)

    def run(self) -> DataFrame:
        rows = frame_of_plan(self._session, self._query)
        rows.writeTo(self._record.staged.sql_name).append()
        return empty_frame(self._session)

    def finish_write(self) -> None:
        with self._connection.open() as database:
            staged = database.find(self._record.staged)
        if staged is None:
            raise staged_table_missing_error(self._record.target, self._record.staged)
        self._record = self._record.model_copy(update={"staged_oid": staged.oid})

    def is_published(self) -> bool:
        with self._connection.open() as database:
            return self._record.staged_oid is not None and not self._has_staged(database)

    def commit(self) -> None:
        record = self._record
        with self._connection.open() as database:
            if not self._has_staged(database):
                if self._commit_may_have_begun:
                    return
                raise staged_table_missing_error(record.target, record.staged)
            self._commit_may_have_begun = True
            self._check_owner(database)
            self._check_target(database)
            if record.overwrites:
                database.truncate(record.target)
            self.rows_written = database.copy_rows(record.staged, record.target)
            database.drop(record.staged)

    def abort(self) -> None:
        with self._connection.open() as database:
            database.drop(self._record.staged)

    def to_record(self) -> dict[str, Any]:
        return self._record.model_dump(mode="json")

    def _has_staged(self, database: JdbcTransaction) -> bool:
        staged = database.find(self._record.staged)
        # A view of that name could run functions of another user.
        return staged == DatabaseRelation(str(self._record.staged_oid), "table")

    def _check_owner(self, database: JdbcTransaction) -> None:
        """Raise CatalogError if the staged table belongs to another user of the database.

        Another driver's record may name a table that its user has filled, and rows to replace that
        only this user may remove.
        """
        if not database.is_owned(self._record.staged):
            raise CatalogError(
                f"The staged rows of table {self._record.target.sql_name} belong to another user of"
                " the database. Nothing was changed. Recover them in a session of that user."
            )

    def _check_target(self, database: JdbcTransaction) -> None:
        """Raise CatalogError if the target is not the table that the write began with."""
        target, name = database.find(self._record.target), self._record.target.sql_name
        if target is None:
            raise CatalogError(f"Table {name} was dropped while the statement ran.")
        columns = database.list_columns(self._record.target)
        if target.oid != self._record.target_oid or columns != database.list_columns(
            self._record.staged
        ):
            raise CatalogError(
                f"Table {name} was altered or replaced while the statement ran. Run it again."
            )


def create_jdbc_write(
    session: SparkSession, path: TablePath, write: WriteDefinition, connection: JdbcConnection
) -> JdbcWrite | None:
    """Return a write that is ready to begin.

    Return None if the database is not PostgreSQL, if the target is no plain table, if the user may
    not create a table beside it, or if the statement does not add or replace all rows.
    """
    mode = find_write_mode(write.plan)
    if mode is None or not connection.is_postgres or len(path.namespace) != 1:
        return None
    with connection.open() as database:
        target = database.find(path)
        may_stage = database.may_create_in(path.namespace[0])
    if target is None or target.kind != "table" or not may_stage:
        return None
    record = JdbcWriteRecord(
        target=path,
        staged=path.sibling(write.staging_name),
        overwrites=mode == "replace all",
        target_oid=target.oid,
    )
    return JdbcWrite(session, record, connection, write.plan.query())


class JdbcTableRecord(BaseModel):
    """Journal record of a JdbcTable."""

    target: TablePath
    staged: TablePath
    replaces: bool
    """Whether the commit drops a table that has the target name."""
    oid: str | None = None
    """PostgreSQL's id of the staged table, which a rename keeps. None until the write has ended."""


class JdbcTable(TwoPhaseTable):
    """A two-phase table in PostgreSQL."""

    def __init__(self, record: JdbcTableRecord, connection: JdbcConnection) -> None:
        self._record = record
        self._connection = connection
        self.write_target = WriteTarget(path=record.staged)

    def begin(self) -> None:
        """Do nothing: Spark's write creates the staged table."""

    def finish_write(self) -> None:
        with self._connection.open() as database:
            staged = database.find(self._record.staged)
        if staged is None:
            raise self._staged_table_missing()
        self._record = self._record.model_copy(update={"oid": staged.oid})

    def is_published(self) -> bool:
        with self._connection.open() as database:
            existing = database.find(self._record.target)
        return existing is not None and existing.oid == self._record.oid

    def commit(self) -> None:
        if self.is_published():
            return
        with self._connection.open() as database:
            staged = database.find(self._record.staged)
            if staged is None or staged.oid != self._record.oid:
                raise self._staged_table_missing()
            existing = database.find(self._record.target)
            if existing is not None:
                if not self._record.replaces or existing.kind != "table":
                    raise table_exists_error(self._record.target, existing.kind)
                database.drop(self._record.target)
            database.rename(self._record.staged, self._record.target.table)

    def abort(self) -> None:
        with self._connection.open() as database:
            database.drop(self._record.staged)

    def to_record(self) -> dict[str, Any]:
        return self._record.model_dump(mode="json")

    def _staged_table_missing(self) -> CatalogError:
        return staged_table_missing_error(self._record.target, self._record.staged)


class SchemaNotFound(DatabaseNotFound):
    """The schema does not exist. Spark passes on the database's own error."""

    condition = "FAILED_JDBC.CREATE_TABLE"
    sqlstate = "HV000"


class JdbcCatalog(TwoPhaseCatalog):
    """Spark's own catalog of a database (`JDBC_CATALOG`)."""

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
