"""A table that its catalog publishes in one step at the end of the write."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from headrace.driver.ctas.base import TRANSACTION_PROPERTY, TablePath, TwoPhaseTable, WriteTarget
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.preconditions import table_exists_error
from headrace.driver.ctas.v2_catalog import V2Catalog
from headrace.errors import CatalogError, StatementFailed


class NativeCommitRecord(BaseModel):
    """Journal record of a NativeCommitTable."""

    transaction: str
    target: TablePath
    replaces: bool
    write_location: str | None = None
    """URI of the directory that only this transaction writes to. None if there is none."""
    write_properties: dict[str, str] = {}
    """Table properties that make the catalog write to `write_location`."""
    final_properties: dict[str, str | None] = {}
    """Values of the same properties after the commit. None removes a property."""


class NativeCommitTable(TwoPhaseTable):
    """A two-phase table that commits natively."""

    commits_natively = True

    def __init__(self, record: NativeCommitRecord, catalog: V2Catalog, files: HadoopFiles) -> None:
        self._record = record
        self._catalog = catalog
        self._files = files
        self.write_target = WriteTarget(
            path=record.target,
            properties={TRANSACTION_PROPERTY: record.transaction, **record.write_properties},
            replaces=record.replaces,
        )

    def begin(self) -> None:
        """Do nothing: Spark's write creates the table."""

    def is_published(self) -> bool:
        properties = self._catalog.properties(self._record.target)
        return properties.get(TRANSACTION_PROPERTY) == self._record.transaction

    def commit(self) -> None:
        if not self.is_published():
            # The table was published, and another user has replaced or dropped it since.
            return
        if self._record.final_properties:
            self._catalog.set_properties(self._record.target, self._record.final_properties)

    def explain_commit_refusal(self, error: Exception) -> StatementFailed | None:
        # Iceberg's catalogs report an existing table in different messages, without a condition.
        exists = "already exists" in str(error) and not self._record.replaces
        existing = self._catalog.kind_of(self._record.target) if exists else None
        return None if existing is None else table_exists_error(self._record.target, existing)

    def abort(self) -> None:
        if self.is_published():
            raise CatalogError(
                f"Table {self._record.target.sql_name} is already published and was not removed."
            )
        if self._record.write_location is not None:
            self._files.remove(self._record.write_location)
            self._files.remove_if_empty(self._record.write_location.rpartition("/")[0])

    def to_record(self) -> dict[str, Any]:
        return self._record.model_dump(mode="json")
