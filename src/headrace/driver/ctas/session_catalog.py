"""Two-phase tables of Spark's own catalog, in memory or on a Hive metastore.

The rows go to a table of a hidden name, which one rename publishes. With a LOCATION they go to a
directory within it and are moved, file by file, before the rename.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import (
    STAGED,
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseTable,
    UntouchedTable,
)
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.metastore_rename import MetastoreRenames
from headrace.driver.ctas.preconditions import check_target, location_not_empty
from headrace.driver.ctas.staged_table import StagedRecord, StagedTable
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.driver.py4j_bridge import Py4JBridge

_LENIENT = "spark.sql.legacy.allowNonEmptyLocationInCTAS"
_METASTORE = ("hive.metastore.uris", "javax.jdo.option.ConnectionURL")


class SessionCatalog(TwoPhaseCatalog):
    """`spark_catalog`, whatever the file format."""

    kind = "session"

    def __init__(self, session: SparkSession, catalog: str) -> None:
        super().__init__(session, catalog)
        self._jvm = Py4JBridge(session)
        self._files = HadoopFiles(session)
        self._tables = V1Catalog(session, self._jvm)
        self._renames = MetastoreRenames(self._tables, self._files)

    def identity(self) -> str:
        known: dict[str, Any] = {"kind": "session"}
        conf = self._jvm.state.newHadoopConf()
        if self._tables.persistent:
            known |= {key: conf.get(key) for key in _METASTORE if conf.get(key)}
        else:
            # Its tables are gone with their driver; what they left in files is to be found there.
            known["warehouse"] = self._jvm.state.conf().warehousePath()
        return json.dumps(known, sort_keys=True)

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,
    ) -> TwoPhaseTable | None:
        if self.session.conf.get(_LENIENT) == "true":
            return None
        there = self._tables.kind_of(path)
        if check_target(path, there, self._has_namespace, table, ignore_if_exists=ignore_if_exists):
            return UntouchedTable(path)
        location = table.location and self._files.full(table.location)
        final = location or self._tables.default_location(path)
        # What a table without a LOCATION leaves its place to is moved away with it.
        if (there is None or location) and not self._is_free(path, final, located=bool(location)):
            if there is None and self._tables.kind_of(path) is not None:
                # Somebody was just publishing it.
                return self.create_two_phase_table(
                    path, table, ignore_if_exists=ignore_if_exists, is_streaming=is_streaming
                )
            raise location_not_empty(path, final)
        staged = path.beside(table.own_name)
        # By a name that readers of the LOCATION pass over.
        rows_at = f"{location}/_{staged.table}" if location else None
        record = StagedRecord(
            transaction=table.transaction,
            target=path,
            staged=staged,
            rows_at=rows_at or self._tables.default_location(staged),
            final=final,
            external=location is not None,
            made_final=location is not None and not self._files.exists(final),
            replaced=path.beside(table.own_name.replace("staged", "replaced")) if there else None,
        )
        return StagedTable(record, self._tables, self._files)

    def _is_free(self, path: TablePath, final: str, *, located: bool) -> bool:
        """Whether nothing is there yet that stays, as far as can be said before the commit."""
        if located:
            return self._files.is_empty(final, but=f"_{STAGED}")
        return self._files.is_empty(final) or self._renames.under_way(path)

    def _has_namespace(self, namespace: tuple[str, ...]) -> bool:
        return len(namespace) == 1 and self._tables.has_database(namespace[0])

    def restore(self, record: dict[str, Any]) -> TwoPhaseTable:
        known = StagedRecord.model_validate(record)
        return StagedTable(known, self._tables, self._files, restored=True)
