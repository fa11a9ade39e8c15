"""A table that its catalog publishes in one step at the end of the write."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.conf_overrides import override_privately
from headrace.driver.ctas.base import (
    TRANSACTION_PROPERTY,
    JournalledTable,
    TwoPhaseTable,
    TwoPhaseWrite,
    WriteDefinition,
)
from headrace.driver.ctas.preconditions import table_exists_error
from headrace.driver.spark_version.catalogs import TablePath, V2Catalog
from headrace.driver.spark_version.ctas_plan import WriteTarget
from headrace.driver.spark_version.hadoop_files import HadoopFiles
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


_RECOVERED_NOTE = (
    "The driver was lost after the commit: the counts that the statement returns are not known."
)


class NativeWriteRecord(BaseModel):
    """Journal record of a NativeWrite."""

    transaction: str
    target: TablePath
    writer: str | None = None
    """See `WriteDefinition.writer`. None: the mark does not contain it."""
    version: int | None = None
    """See `WriteDefinition.version`."""
    since_version: int | None = None
    """A version of the table before the commit; None: the mark is found without it."""


class NativeWrite(TwoPhaseWrite):
    """A two-phase write that commits natively. A subclass sets and finds the mark."""

    commits_natively = True
    shares_target = True

    def __init__(
        self,
        session: SparkSession,
        record: NativeWriteRecord,
        definition: WriteDefinition | None = None,
    ) -> None:
        """Create a write.

        Args:
            definition: The statement; None for another driver's write.
        """
        self.session = session
        self.record = record
        self._definition = definition
        self.note = _RECOVERED_NOTE if definition is None else None

    @property
    @abstractmethod
    def mark(self) -> dict[str, str]:
        """Configuration that adds the mark to the commits of a Spark session."""

    @abstractmethod
    def is_published(self) -> bool:
        """Return whether the table has a commit with the mark."""

    def begin(self) -> None:
        """Do nothing: nothing exists before the commit."""

    def run(self) -> DataFrame:
        # A stream that starts meanwhile must not carry the mark.
        with override_privately(self.session, self.mark):
            return self.run_command()

    def run_command(self) -> DataFrame:
        """Run the statement unchanged, while the session has the mark."""
        assert self._definition is not None
        return self._definition.run()

    def commit(self) -> None:
        """Do nothing: the rows are in the table."""

    def abort(self) -> None:
        """Do nothing: files without a commit belong to no version of the table."""

    def to_record(self) -> dict[str, Any]:
        return self.record.model_dump(mode="json", exclude_none=True)


def restore_record(journalled: JournalledTable, catalog: str) -> NativeWriteRecord:
    """Return the record of another driver's write. Raises CatalogError if it is not trusted."""
    claimed = NativeWriteRecord.model_validate(journalled.record)
    target = journalled.check_target(claimed.target, catalog)
    return claimed.model_copy(update={"transaction": journalled.transaction, "target": target})
