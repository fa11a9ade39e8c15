"""Two-phase tables of Iceberg's catalogs, which publish a table by one change of their own.

All that is written of a table goes to a directory of the transaction's own below the table's, by
table properties that go back to what they were once it is published: what a kill leaves is known.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import (
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseTable,
    UntouchedTable,
)
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.native_commit import NativeCommitRecord, NativeCommitTable
from headrace.driver.ctas.preconditions import check_target, location_not_empty
from headrace.driver.ctas.v2_catalog import V2Catalog

_DATA, _METADATA = "write.data.path", "write.metadata.path"
_IDENTIFYING = ("type", "catalog-impl", "uri", "warehouse", "jdbc.catalog-name")


class IcebergCatalog(TwoPhaseCatalog):
    """`org.apache.iceberg.spark.SparkCatalog`, whatever it stands on."""

    kind = "iceberg"

    def __init__(self, session: SparkSession, catalog: str) -> None:
        super().__init__(session, catalog)
        self._plugin = V2Catalog(session, catalog)
        self._files = HadoopFiles(session)

    def identity(self) -> str:
        # What follows a question mark may be a password, and does not say which catalog it is.
        known = {key: self._conf(key).partition("?")[0] for key in _IDENTIFYING if self._conf(key)}
        return json.dumps({"kind": self.kind, **known}, sort_keys=True)

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,  # noqa: ARG002 - all the same here
    ) -> TwoPhaseTable | None:
        there = self._plugin.kind_of(path)
        if check_target(
            path, there, self._plugin.has_namespace, table, ignore_if_exists=ignore_if_exists
        ):
            return UntouchedTable(path)
        now = self._plugin.properties(path)
        if table.location is not None and not now and not self._files.is_empty(table.location):
            raise location_not_empty(path, table.location)
        root = table.location or now.get("location") or self._default_location(path)
        place = f"{root.rstrip('/')}/data/{table.own_name}"
        leads = {_DATA: place}
        if not self._hadoop:
            # A catalog of files finds a table by where its metadata is.
            leads[_METADATA] = f"{place}/metadata"
        record = NativeCommitRecord(
            transaction=table.transaction,
            target=path,
            replaces=table.replaces,
            place=place,
            while_writing=leads,
            afterwards={key: table.properties.get(key, now.get(key)) for key in leads},
        )
        return NativeCommitTable(record, self._plugin, self._files)

    def restore(self, record: dict[str, Any]) -> TwoPhaseTable:
        known = NativeCommitRecord.model_validate(record)
        mine = known.model_copy(update={"target": known.target.within(self.catalog)})
        return NativeCommitTable(mine, self._plugin, self._files)

    @property
    def _hadoop(self) -> bool:
        return self._conf("type") == "hadoop" or self._conf("catalog-impl").endswith(
            "HadoopCatalog"
        )

    def _conf(self, key: str) -> str:
        return str(self.session.conf.get(f"spark.sql.catalog.{self.catalog}.{key}", ""))

    def _default_location(self, path: TablePath) -> str:
        """Where the catalog would put it: a table is begun and let go, which leaves nothing."""
        jvm = self._plugin.jvm
        sql = "org.apache.spark.sql"
        column: Any = jvm.type(f"{sql}.connector.catalog.Column")
        columns = jvm.array_of(
            f"{sql}.connector.catalog.Column",
            [column.create("x", jvm.singleton(f"{sql}.types.IntegerType"))],
        )
        transforms = jvm.array_of(f"{sql}.connector.expressions.Transform", [])
        nothing = jvm.type("java.util.HashMap")()
        staged = self._plugin.java.stageCreate(
            self._plugin.identifier(path), columns, transforms, nothing
        )
        return str(staged.properties().get("location"))
