"""Changes of the rows of Iceberg tables, whose snapshots name the transaction."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.driver.ctas.base import TRANSACTION_PROPERTY, WriteDefinition
from headrace.driver.ctas.native_write import NativeWrite, NativeWriteRecord
from headrace.driver.ctas.v2_catalog import V2Catalog
from headrace.driver.java_source import compile_java
from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name

_SNAPSHOT_PROPERTY = f"spark.sql.iceberg.snapshot-property.{TRANSACTION_PROPERTY}"

_ROW_LEVEL = {"DeleteFromTable", "ReplaceData", "WriteDelta"}
"""Class names of the plans of DELETE, UPDATE and MERGE, which may delete whole files."""


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
        if plan_class_name(self._plan) not in _ROW_LEVEL:
            return super().run_command()
        jvm = Py4JBridge(self.session)
        marked = compile_java(jvm.root, __package__, "MarkedStatement")
        properties = jvm.type("java.util.HashMap")()
        properties.put(TRANSACTION_PROPERTY, self.record.transaction)
        rows = marked.run(properties, jvm.session, self._plan)
        return ClassicDataFrame(rows, self.session)

    def is_published(self) -> bool:
        # This also forgets what the session has cached of the table.
        if self._plugin.kind_of(self.record.target) != "table":
            return False
        snapshots = self.session.table(f"{self.record.target.sql_name}.snapshots")
        transaction = snapshots["summary"][TRANSACTION_PROPERTY]
        return not snapshots.where(transaction == self.record.transaction).isEmpty()
