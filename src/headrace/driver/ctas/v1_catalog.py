"""The tables of Spark's own catalog, as far as two-phase ones need them looked at and changed."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import STAGED, TablePath
from headrace.driver.ctas.v2_catalog import V2Catalog
from headrace.driver.py4j_bridge import Py4JBridge

_SET_LOCATION = "org.apache.spark.sql.execution.command.AlterTableSetLocationCommand"


class V1Catalog:
    """What Spark's own catalog holds, and how it is changed."""

    def __init__(self, session: SparkSession, jvm: Py4JBridge) -> None:
        self._session = session
        self._jvm = jvm
        self._catalog = jvm.state.catalog()
        self.persistent = session.conf.get("spark.sql.catalogImplementation") == "hive"

    def has_database(self, database: str) -> bool:
        return bool(self._catalog.databaseExists(database))

    def kind_of(self, path: TablePath) -> str | None:
        """`table` or `view`; None when there is neither."""
        identifier = self._identifier(path)
        if not self._catalog.tableExists(identifier):
            return None
        is_view = self._catalog.getTableMetadata(identifier).tableType().name() == "VIEW"
        return "view" if is_view else "table"

    def properties(self, path: TablePath) -> dict[str, str]:
        """The table properties of a table that is there."""
        known = self._catalog.getTableMetadata(self._identifier(path))
        if known.provider().isDefined() and known.provider().get() == "delta":
            # Delta keeps them in its log, and none in the catalog.
            return V2Catalog(self._session, path.catalog).properties(path)
        return self._jvm.map_of(known.properties())

    def default_location(self, path: TablePath) -> str:
        """The URI of a table without a LOCATION."""
        return str(self._catalog.defaultTablePath(self._identifier(path)).toString())

    def managed_place(self, path: TablePath) -> str | None:
        """The URI of a table whose place is the catalog's own choice; None where there is none."""
        found = self._managed(self._jvm.sequence([self._identifier(path)]))
        return found[0] if found else None

    def staged_places(self, path: TablePath) -> list[str]:
        """The URIs of the managed ones that are staged beside a table."""
        return self._managed(self._catalog.listTables(path.namespace[0], f"{STAGED}*", False))

    def _managed(self, identifiers: Any) -> list[str]:
        # Of those that are gone by now it says nothing.
        known = self._jvm.list_of(self._catalog.getTablesByName(identifiers))
        managed = [one for one in known if one.tableType().name() == "MANAGED"]
        return [str(one.location().toString()) for one in managed]

    def publish(self, path: TablePath, target: TablePath) -> None:
        """Renames a table that nobody has read yet. Raises as `rename` does.

        The statement would first resolve the table, to see who has cached it.
        """
        staged = self._identifier(path)
        self._catalog.invalidateCachedTable(staged)
        self._catalog.renameTable(staged, self._identifier(target))

    def rename(self, path: TablePath, target: TablePath) -> None:
        """Raises PySparkException when there is such a table, or files where it would be."""
        new = target.quoted().partition(".")[2]
        self._session.sql(f"ALTER TABLE {path.quoted()} RENAME TO {new}")

    def drop(self, path: TablePath) -> None:
        """A table and, where they are its own, its files; nothing where there is none."""
        self._session.sql(f"DROP TABLE IF EXISTS {path.quoted()}")

    def relocate(self, path: TablePath, old: str, new: str, *, table_too: bool) -> None:
        """Has partitions, and the table itself, say that they are below `new` instead of `old`."""
        external, database = self._catalog.externalCatalog(), path.namespace[0]
        known = self._catalog.getTableMetadata(self._identifier(path))
        nothing = self._jvm.none()
        if not known.partitionColumnNames().isEmpty() and known.tracksPartitionsInCatalog():
            listed = external.listPartitions(database, path.table, nothing)
            moved = [self._moved(one, old, new) for one in self._jvm.list_of(listed)]
            if moved:
                external.alterPartitions(database, path.table, self._jvm.sequence(moved))
        if table_too:
            # By the catalog's own command: Delta looks for its log at the place that is left.
            command: Any = self._jvm.type(_SET_LOCATION)
            command(self._identifier(path), nothing, new).run(self._jvm.session)
        self._session.sql(f"REFRESH TABLE {path.quoted()}")

    def _moved(self, partition: Any, old: str, new: str) -> Any:
        storage = partition.storage()
        place = str(storage.locationUri().get().toString())
        # One place is written as file:/p and as file:///p: its last name is what is compared.
        inner = place.partition(f"/{old.rpartition('/')[2]}/")[2]
        uri = self._jvm.type("java.net.URI")(f"{new.rstrip('/')}/{inner}" if inner else place)
        moved = storage.copy(
            self._jvm.some(uri),
            storage.inputFormat(),
            storage.outputFormat(),
            storage.serde(),
            storage.compressed(),
            storage.properties(),
        )
        return partition.copy(
            partition.spec(),
            moved,
            partition.parameters(),
            partition.createTime(),
            partition.lastAccessTime(),
            partition.stats(),
        )

    def _identifier(self, path: TablePath) -> Any:
        some = self._jvm.some
        identifier: Any = self._jvm.type("org.apache.spark.sql.catalyst.TableIdentifier")
        return identifier(path.table, some(path.namespace[0]), some(path.catalog))
