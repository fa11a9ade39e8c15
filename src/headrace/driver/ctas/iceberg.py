"""Two-phase tables of Iceberg catalogs, which commit natively.

Each transaction writes to a directory of its own below the table's location. Table properties
select this directory, and the commit restores their previous values. The abort of a killed
transaction can therefore find and remove its files.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import (
    TRANSACTION_PROPERTY,
    ExistingTable,
    JournalledTable,
    TableDefinition,
    TwoPhaseCatalog,
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
from headrace.driver.ctas.preconditions import check_target, location_not_empty_error
from headrace.driver.spark_version.catalogs import TablePath, V2Catalog
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.written_rows import may_delete_files, run_marked
from headrace.model.materialized_view import MATERIALIZED_VIEW_PROPERTY

_SNAPSHOT_PROPERTY = f"spark.sql.iceberg.snapshot-property.{TRANSACTION_PROPERTY}"


class IcebergWrite(NativeWrite):
    """A two-phase write to an Iceberg table."""

    def __init__(
        self,
        session: SparkSession,
        record: NativeWriteRecord,
        plugin: V2Catalog,
        definition: WriteDefinition | None = None,
    ) -> None:
        super().__init__(session, record, definition)
        self._plugin = plugin
        self._plan = None if definition is None else definition.plan

    @property
    def mark(self) -> dict[str, str]:
        return {_SNAPSHOT_PROPERTY: self.record.transaction}

    def run_command(self) -> DataFrame:
        if not may_delete_files(self._plan):
            return super().run_command()
        mark = {TRANSACTION_PROPERTY: self.record.transaction}
        return run_marked(self.session, self._plan, mark)

    def is_published(self) -> bool:
        # This also forgets what the session has cached of the table.
        if self._plugin.kind_of(self.record.target) != "table":
            return False
        snapshots = self.session.table(f"{self.record.target.sql_name}.snapshots")
        transaction = snapshots["summary"][TRANSACTION_PROPERTY]
        return not snapshots.where(transaction == self.record.transaction).isEmpty()


_DATA, _METADATA = "write.data.path", "write.metadata.path"
_WRITTEN = (_DATA, _METADATA)
"""Table properties that a transaction sets and restores."""
_BRANCH = "branch_"
_IDENTIFYING = ("type", "catalog-impl", "uri", "warehouse", "jdbc.catalog-name")


class IcebergCatalog(TwoPhaseCatalog):
    """Iceberg's catalog (`ICEBERG_CATALOG`), on any Iceberg backend."""

    kind = "iceberg"
    needs_purge = True  # most of Iceberg's catalogs keep the files otherwise
    refreshes_views = True

    def __init__(self, session: SparkSession, catalog: str) -> None:
        super().__init__(session, catalog)
        self._plugin = V2Catalog(session, catalog)
        self._files = HadoopFiles(session)

    def identity(self) -> str:
        # The query part of a URI may hold a password, and does not identify the catalog.
        values = {key: self._conf(key).partition("?")[0] for key in _IDENTIFYING if self._conf(key)}
        return json.dumps({"kind": self.kind, **values}, sort_keys=True)

    def find_view_id(self, path: TablePath) -> str | None:
        return self._plugin.properties(path).get(MATERIALIZED_VIEW_PROPERTY)

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,  # noqa: ARG002 - makes no difference for Iceberg
    ) -> TwoPhaseTable | None:
        existing = self._plugin.kind_of(path)
        if check_target(
            path,
            existing,
            # Some of Iceberg's catalogs create a missing namespace; the others refuse the table.
            lambda _namespace: True,
            table,
            ignore_if_exists=ignore_if_exists,
        ):
            return ExistingTable(path)
        previous = self._plugin.properties(path)
        location = table.location
        if location is not None and not previous and not self._files.is_empty(location):
            raise location_not_empty_error(path, location, is_external=True)
        root = location or previous.get("location") or self._plugin.choose_location(path)
        write_location = f"{root.rstrip('/')}/data/{table.staging_name}"
        write_properties = {_DATA: write_location}
        if not self._is_hadoop_catalog:
            # A Hadoop catalog finds a table by the location of its metadata, which must not move.
            write_properties[_METADATA] = f"{write_location}/metadata"
        record = NativeCommitRecord(
            transaction=table.transaction,
            target=path,
            replaces=table.replaces,
            write_location=write_location,
            write_properties=write_properties,
            final_properties={
                key: table.properties.get(key, previous.get(key)) for key in write_properties
            },
        )
        return NativeCommitTable(record, self._plugin, self._files)

    def create_two_phase_write(
        self, path: TablePath, write: WriteDefinition
    ) -> TwoPhaseWrite | None:
        if len(path.namespace) > 1 and path.table.startswith(_BRANCH):
            # The name of a branch, `db.t.branch_b`, is no name of a table.
            return None
        record = NativeWriteRecord(
            transaction=write.transaction, target=path, writer=write.writer, version=write.version
        )
        return IcebergWrite(self.session, record, self._plugin, write)

    def restore(self, journalled: JournalledTable) -> TwoPhaseChange:
        if "writer" in journalled.record:
            written = restore_record(journalled, self.catalog)
            return IcebergWrite(self.session, written, self._plugin)
        claimed = NativeCommitRecord.model_validate(journalled.record)
        place = claimed.write_location
        if place is None or not place.endswith(f"/data/{journalled.staging_name}"):
            raise journalled.refuse(f"it names the directory {place}")
        properties = claimed.final_properties
        record = NativeCommitRecord(
            transaction=journalled.transaction,
            target=journalled.check_target(claimed.target, self.catalog),
            replaces=claimed.replaces,
            write_location=place,
            final_properties={key: properties[key] for key in _WRITTEN if key in properties},
        )
        return NativeCommitTable(record, self._plugin, self._files)

    @property
    def _is_hadoop_catalog(self) -> bool:
        return self._conf("type") == "hadoop" or self._conf("catalog-impl").endswith(
            "HadoopCatalog"
        )

    def _conf(self, key: str) -> str:
        return str(self.session.conf.get(f"spark.sql.catalog.{self.catalog}.{key}", ""))
