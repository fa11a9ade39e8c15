"""Two-phase tables of Delta in the session catalog.

A new table is staged under a hidden name and renamed, like a table of any other format. Delta's own
staging is not used for it: Delta writes all rows during its commit, when a cancel is too late.
An existing table is replaced by one entry in its Delta log, which commits natively. So are changes
of its rows.
"""

from __future__ import annotations

from typing import Any

from headrace.driver.ctas.base import (
    JournalledTable,
    TableDefinition,
    TwoPhaseChange,
    TwoPhaseTable,
    TwoPhaseWrite,
    WriteDefinition,
)
from headrace.driver.ctas.native_commit import (
    NativeCommitRecord,
    NativeCommitTable,
    NativeWrite,
    NativeWriteRecord,
    restore_record,
)
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog, V2Catalog

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_WRITER = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"


class DeltaWrite(NativeWrite):
    """A two-phase write to a Delta table in the session catalog.

    The mark is the `userMetadata` of the commit. If the user has set that, the mark is an
    identifier of Delta's for transactions. Before such a commit, Delta reads the whole state of the
    table, in a job of 50 tasks.
    """

    @property
    def mark(self) -> dict[str, str]:
        if self.record.writer is None:
            return {_USER_METADATA: self._user_metadata}
        return {_WRITER: self.record.writer, _VERSION: str(self.record.version)}

    @property
    def _user_metadata(self) -> str:
        return f"headrace {self.record.transaction}"

    def is_published(self) -> bool:
        catalog, target = V1Catalog(self.session), self.record.target
        if catalog.kind_of(target) != "table":
            return False
        if self.record.writer is None:
            since = self.record.since_version or 0
            return catalog.has_delta_commit(target, self._user_metadata, after=since)
        # A newer version belongs to a later statement of the session.
        return catalog.find_delta_version(target, self.record.writer) == self.record.version


class DeltaCatalog(SessionCatalog):
    """Delta's catalog (`DELTA_CATALOG`), configured as `spark_catalog`."""

    kind = "delta"

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,
    ) -> TwoPhaseTable | None:
        if path.namespace == ("delta",) and not self._has_namespace(path.namespace):
            # delta.`/path` has no catalog entry that could be staged and renamed.
            return None
        if table.replaces and self._v1_catalog.kind_of(path) == "table":
            record = NativeCommitRecord(transaction=table.transaction, target=path, replaces=True)
            return self._replacement(record)
        return super().create_two_phase_table(
            path, table, ignore_if_exists=ignore_if_exists, is_streaming=is_streaming
        )

    def create_two_phase_write(
        self, path: TablePath, write: WriteDefinition
    ) -> TwoPhaseWrite | None:
        # delta.`/path` has no entry in the catalog.
        if not self._has_namespace(path.namespace):
            return None
        mark: dict[str, Any]
        if not self._is_set(_USER_METADATA):
            mark = {"since_version": self._v1_catalog.known_delta_version(path)}
        elif not (self._is_set(_WRITER) or self._is_set(_VERSION)):
            mark = {"writer": write.writer, "version": write.version}
        else:
            return None  # what the user has set stays
        record = NativeWriteRecord(transaction=write.transaction, target=path, **mark)
        return DeltaWrite(self.session, record, write)

    def _is_set(self, key: str) -> bool:
        return self.session.conf.get(key, None) is not None

    def restore(self, journalled: JournalledTable) -> TwoPhaseChange:
        # Version 0.1.0 knows only records with a writer. It leaves the others to newer drivers.
        if not {"writer", "since_version"}.isdisjoint(journalled.record):
            return DeltaWrite(self.session, restore_record(journalled, self.catalog))
        # Only the record of a StagedTable names a staged table.
        if "staged" in journalled.record:
            return super().restore(journalled)
        claimed = NativeCommitRecord.model_validate(journalled.record)
        target = journalled.check_target(claimed.target, self.catalog)
        return self._replacement(
            NativeCommitRecord(transaction=journalled.transaction, target=target, replaces=True)
        )

    def _replacement(self, record: NativeCommitRecord) -> NativeCommitTable:
        return NativeCommitTable(record, V2Catalog(self.session, self.catalog), self._files)
