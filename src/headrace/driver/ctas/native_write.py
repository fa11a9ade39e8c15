"""A change of rows that its catalog publishes in one step, with a mark that names the statement.

Spark runs the statement unchanged. The mark goes into the same commit. After the loss of a driver,
the next driver looks for the mark. If it exists, the statement is complete. Otherwise the statement
is retried.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.conf_overrides import override_privately
from headrace.driver.ctas.base import (
    JournalledTable,
    TablePath,
    TwoPhaseWrite,
    WriteDefinition,
)

_RECOVERED_NOTE = (
    "The driver was lost after the commit: the counts that the statement returns are not known."
)


class NativeWriteRecord(BaseModel):
    """Journal record of a NativeWrite."""

    transaction: str
    target: TablePath
    writer: str
    """See `WriteDefinition.writer`."""
    version: int
    """See `WriteDefinition.version`."""


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
        return self.record.model_dump(mode="json")


def restore_record(journalled: JournalledTable, catalog: str) -> NativeWriteRecord:
    """Return the record of another driver's write. Raises CatalogError if it is not trusted."""
    claimed = NativeWriteRecord.model_validate(journalled.record)
    target = journalled.check_target(claimed.target, catalog)
    return claimed.model_copy(update={"transaction": journalled.transaction, "target": target})
