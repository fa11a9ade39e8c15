"""Changes of the rows of Delta tables, which Delta applies once for each writer and version.

Delta's log keeps the last version of each writer, and a commit with a version that is not newer is
skipped (`SetTransaction` in Delta's protocol).
"""

from __future__ import annotations

from headrace.driver.ctas.native_write import NativeWrite
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.driver.py4j_bridge import Py4JBridge

_WRITER = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
MARK_KEYS = (_WRITER, _VERSION)


class DeltaWrite(NativeWrite):
    """A two-phase write to a Delta table in the session catalog."""

    @property
    def mark(self) -> dict[str, str]:
        return {_WRITER: self.record.writer, _VERSION: str(self.record.version)}

    def is_published(self) -> bool:
        jvm = Py4JBridge(self.session)
        catalog = V1Catalog(self.session, jvm)
        if catalog.kind_of(self.record.target) != "table":
            return False
        logs = jvm.type("org.apache.spark.sql.delta.DeltaLog")
        table = jvm.state.catalog().getTableMetadata(catalog.identifier(self.record.target))
        may_be_stale = False
        snapshot = logs.forTable(jvm.session, table).update(may_be_stale, jvm.none(), jvm.none())
        version = snapshot.transactions().get(self.record.writer)
        # A newer version belongs to a later statement of the session.
        return bool(version.isDefined() and version.get() == self.record.version)
