"""A table of a database that is written under a hidden name and published by a rename."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from headrace.driver.ctas.base import Destination, TablePath, TwoPhaseTable
from headrace.driver.ctas.jdbc_connection import JdbcConnection
from headrace.driver.ctas.preconditions import already_exists
from headrace.errors import CatalogError


class JdbcTableRecord(BaseModel):
    """What the journal keeps of it."""

    target: TablePath
    staged: TablePath
    replaces: bool
    oid: str | None = None
    """What the database calls the table, whatever its name; None before all rows are written."""


class JdbcTable(TwoPhaseTable):
    """Drives one of them; see TwoPhaseTable."""

    def __init__(self, record: JdbcTableRecord, connection: JdbcConnection) -> None:
        self._is = record
        self._connection = connection
        self.destination = Destination(path=record.staged)

    def begin(self) -> None:
        """The statement's own write makes all there is."""

    def seal(self) -> None:
        with self._connection.open() as database:
            staged = database.find(self._is.staged)
        if staged is None:
            raise self._gone()
        self._is = self._is.model_copy(update={"oid": staged.oid})

    def published(self) -> bool:
        with self._connection.open() as database:
            there = database.find(self._is.target)
        return there is not None and there.oid == self._is.oid

    def commit(self) -> None:
        if self.published():
            return
        with self._connection.open() as database:
            staged = database.find(self._is.staged)
            if staged is None or staged.oid != self._is.oid:
                raise self._gone()
            there = database.find(self._is.target)
            if there is not None:
                if not self._is.replaces or there.kind != "table":
                    raise already_exists(self._is.target, there.kind)
                database.drop(self._is.target)
            database.rename(self._is.staged, self._is.target.table)

    def abort(self) -> None:
        with self._connection.open() as database:
            database.drop(self._is.staged)

    def record(self) -> dict[str, Any]:
        return self._is.model_dump(mode="json")

    def _gone(self) -> CatalogError:
        return CatalogError(
            f"The rows of {self._is.target.quoted()} are gone: somebody has dropped "
            f"{self._is.staged.quoted()}."
        )
