"""A PostgreSQL table that is written under a hidden name and published by a rename."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from headrace.driver.ctas.base import TablePath, TwoPhaseTable, WriteTarget
from headrace.driver.ctas.jdbc_connection import JdbcConnection
from headrace.driver.ctas.preconditions import staged_table_missing_error, table_exists_error
from headrace.errors import CatalogError


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
