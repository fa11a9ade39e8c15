"""Rows that go to a table with a hidden name in PostgreSQL first.

One database transaction copies them to the target and drops the hidden table. Its absence is
therefore the proof of the commit.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TablePath, TwoPhaseWrite, WriteDefinition
from headrace.driver.ctas.jdbc_connection import (
    DatabaseRelation,
    JdbcConnection,
    JdbcTransaction,
)
from headrace.driver.ctas.preconditions import staged_table_missing_error
from headrace.driver.parameters import empty_frame, frame_of_plan
from headrace.driver.py4j_bridge import plan_class_name
from headrace.errors import CatalogError


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
    kind = plan_class_name(write.plan)
    replaces_all = kind == "OverwriteByExpression" and _is_true(write.plan.deleteExpr())
    if not connection.is_postgres or len(path.namespace) != 1:
        return None
    if kind != "AppendData" and not replaces_all:
        return None
    with connection.open() as database:
        target = database.find(path)
        may_stage = database.may_create_in(path.namespace[0])
    if target is None or target.kind != "table" or not may_stage:
        return None
    record = JdbcWriteRecord(
        target=path,
        staged=path.sibling(write.staging_name),
        overwrites=replaces_all,
        target_oid=target.oid,
    )
    return JdbcWrite(session, record, connection, write.plan.query())


def _is_true(condition: Any) -> bool:
    return plan_class_name(condition) == "Literal" and str(condition.value()) == "True"
