"""Two-phase tables of Delta in Spark's own catalog.

A new one is staged under a hidden name and renamed, like those of any format: Delta's own staging
writes all rows only when it is told to commit, when it is too late for a cancel. A table that is
there is replaced by one entry of its log, which is Delta's own way and publishes itself.
"""

from __future__ import annotations

from typing import Any

from headrace.driver.ctas.base import TableDefinition, TablePath, TwoPhaseTable
from headrace.driver.ctas.native_commit import NativeCommitRecord, NativeCommitTable
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.v2_catalog import V2Catalog


class DeltaCatalog(SessionCatalog):
    """`org.apache.spark.sql.delta.catalog.DeltaCatalog`, in the place of Spark's own."""

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
            # A path instead of a name: its log is all the catalog there is.
            return None
        if table.replaces and self._tables.kind_of(path) == "table":
            record = NativeCommitRecord(transaction=table.transaction, target=path, replaces=True)
            return self._replacing(record)
        return super().create_two_phase_table(
            path, table, ignore_if_exists=ignore_if_exists, is_streaming=is_streaming
        )

    def restore(self, record: dict[str, Any]) -> TwoPhaseTable:
        if "staged" in record:
            return super().restore(record)
        return self._replacing(NativeCommitRecord.model_validate(record))

    def _replacing(self, record: NativeCommitRecord) -> NativeCommitTable:
        return NativeCommitTable(record, V2Catalog(self.session, self.catalog), self._files)
