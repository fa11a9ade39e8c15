"""Tables in the catalogs of a session: their names, and access through Spark's interfaces."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import (
    HADOOP_PATH,
    Py4JBridge,
    class_name,
    compile_java,
    list_of,
    option_value,
)
from headrace.errors import CatalogError
from headrace.grammar.quoting import quote_name, quote_string

_SET_LOCATION_COMMAND = "org.apache.spark.sql.execution.command.AlterTableSetLocationCommand"
_CONNECTOR = "org.apache.spark.sql.connector"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
JDBC_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
_ICEBERG_CLASSES = "org.apache.iceberg."
_TABLE_NAME = re.compile("[A-Za-z0-9_]+")
_FORMATS_WITH_LOG = {"delta", "iceberg", "hudi"}
"""Table formats that control concurrent writes themselves."""


RelationKind = Literal["table", "view"]
"""Kind of the relation that a name in a catalog refers to."""


@dataclass(frozen=True, slots=True)
class TablePath:
    """Full name of a table."""

    catalog: str
    namespace: tuple[str, ...]
    table: str

    @property
    def parts(self) -> list[str]:
        """Catalog, namespace and table as a list."""
        return [self.catalog, *self.namespace, self.table]

    @property
    def sql_name(self) -> str:
        """Full name, quoted for SQL."""
        return ".".join(quote_name(part) for part in self.parts)

    @property
    def lock_key(self) -> str:
        """Key under which the journal serialises commits to this name, in lower case."""
        return ".".join(quote_name(part) for part in [*self.namespace, self.table]).lower()

    def sibling(self, table: str) -> TablePath:
        """Return the path of another table in the same namespace."""
        return TablePath(self.catalog, self.namespace, table)

    def in_catalog(self, catalog: str) -> TablePath:
        """Return the path of the same table under another name of its catalog."""
        return TablePath(catalog, self.namespace, self.table)


def is_valid_name(table: str) -> bool:
    """Return whether Spark accepts the name of a table (SessionCatalog.validNameFormat)."""
    return _TABLE_NAME.fullmatch(table) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """What the session catalog says of a table or a view."""

    is_view: bool
    provider: str | None
    location: str | None
    """URI of the table's directory, as Hadoop's Path writes it."""
    partition_columns: list[str]
    tracks_partitions: bool
    """Whether the catalog lists the partitions of the table."""
    properties: dict[str, str]
    fingerprint: str
    """Text that is equal as long as the table was not dropped, replaced or altered."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CatalogEntry:
        """Return the entry of an object from CatalogTables.java."""
        return cls(
            is_view=values["is_view"],
            provider=values["provider"],
            location=values["location"],
            partition_columns=values["partition_columns"],
            tracks_partitions=values["tracks_partitions"],
            properties=values["properties"],
            fingerprint=hashlib.sha256(values["facts"].encode()).hexdigest(),
        )

    @property
    def kind(self) -> RelationKind:
        return "view" if self.is_view else "table"

    @property
    def files_location(self) -> str | None:
        """Directory of a table whose files Spark or Hive writes directly.

        None for a view, and for a table whose format has a log of its own.
        """
        has_log = self.provider is not None and self.provider.lower() in _FORMATS_WITH_LOG
        return None if self.is_view or has_log else self.location

    @property
    def has_hive_partitions(self) -> bool:
        """Whether Hive adds the files of an INSERT to the partitions of the table."""
        is_hive = self.provider is None or self.provider.lower() == "hive"
        return is_hive and bool(self.partition_columns)


class V2Catalog:
    """One catalog of a session. Every call may raise Py4JError or PySparkException."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session = session
        self._jvm = Py4JBridge(session)
        self._catalog = catalog

    @cached_property
    def java_catalog(self) -> Any:
        """Spark's CatalogPlugin object."""
        return self._jvm.catalog(self._catalog)

    def kind_of(self, path: TablePath) -> RelationKind | None:
        """Return the kind of the relation with this name, past all caches; None if it is free."""
        identifier = self.identifier(path)
        self.java_catalog.invalidateTable(identifier)
        if self.java_catalog.tableExists(identifier):
            return "table"
        try:
            return "view" if self.java_catalog.viewExists(identifier) else None
        except Py4JError:
            # The catalog does not implement Spark's ViewCatalog.
            return None

    def properties(self, path: TablePath) -> dict[str, str]:
        """Return the current table properties. Empty if the table does not exist."""
        identifier = self.identifier(path)
        # Other sessions may have changed the table since this session cached it.
        self.java_catalog.invalidateTable(identifier)
        if not self.java_catalog.tableExists(identifier):
            return {}
        return self._jvm.java_map(self.java_catalog.loadTable(identifier).properties())

    def choose_location(self, path: TablePath) -> str:
        """Return the location that a catalog of Iceberg would choose for a new table.

        Iceberg offers this location only for a staged table. A staged table that is not committed
        leaves nothing behind.
        """
        column: Any = self._jvm.type(f"{_CONNECTOR}.catalog.Column")
        columns = self._jvm.array_of(
            f"{_CONNECTOR}.catalog.Column",
            [column.create("x", self._jvm.singleton("org.apache.spark.sql.types.IntegerType"))],
        )
        transforms = self._jvm.array_of(f"{_CONNECTOR}.expressions.Transform", [])
        properties = self._jvm.type("java.util.HashMap")()
        staged = self.java_catalog.stageCreate(
            self.identifier(path), columns, transforms, properties
        )
        return str(staged.properties().get("location"))

    def set_properties(self, path: TablePath, values: dict[str, str | None]) -> None:
        """Set table properties, and remove each property whose value is None."""
        changed = {key: value for key, value in values.items() if value is not None}
        removed = [quote_string(key) for key in values.keys() - changed]
        alter = f"ALTER TABLE {path.sql_name}"
        if changed:
            assignments = ", ".join(
                f"{quote_string(key)} = {quote_string(value)}" for key, value in changed.items()
            )
            self._session.sql(f"{alter} SET TBLPROPERTIES ({assignments})")
        if removed:
            self._session.sql(f"{alter} UNSET TBLPROPERTIES IF EXISTS ({', '.join(removed)})")

    def identifier(self, path: TablePath) -> Any:
        """Return Spark's Identifier of a table."""
        identifier_class: Any = self._jvm.type(f"{_CONNECTOR}.catalog.Identifier")
        return identifier_class.of(self._jvm.array(list(path.namespace)), path.table)


class NamedTable:
    """The table that a name in SQL means in a session. It need not exist."""

    def __init__(self, session: SparkSession, name: str) -> None:
        """Find where the session looks for the table. Raise the errors of Spark's parser."""
        self._jvm = Py4JBridge(session)
        self._jvm.activate()
        parts = self._jvm.state.sqlParser().parseMultipartIdentifier(name)
        address = self._jvm.state.analyzer().CatalogAndIdentifier().unapply(parts).get()
        self._catalog, self._identifier = address.productElement(0), address.productElement(1)

    @property
    def catalog(self) -> str:
        """Name of the catalog."""
        return str(self._catalog.name())

    @property
    def path(self) -> TablePath:
        """Full name of the table."""
        namespace = tuple(str(level) for level in self._identifier.namespace())
        return TablePath(self.catalog, namespace, str(self._identifier.name()))

    @property
    def is_of_iceberg(self) -> bool:
        """Whether the catalog is one of Iceberg."""
        return class_name(self._catalog).startswith(_ICEBERG_CLASSES)

    def exists(self) -> bool:
        return bool(self._catalog.tableExists(self._identifier))

    def find_streaming_write(self) -> Literal["v2", "delta"] | None:
        """Return how a query writes to the existing table exactly once; None if it cannot."""
        table = self._catalog.loadTable(self._identifier)
        capability = self._jvm.type(f"{_CONNECTOR}.catalog.TableCapability")
        if table.capabilities().contains(capability.STREAMING_WRITE):
            return "v2"
        return "delta" if table.properties().get("provider") == "delta" else None


class V1Catalog:
    """The session catalog. Every call may raise Py4JError or PySparkException."""

    def __init__(self, session: SparkSession, jvm: Py4JBridge | None = None) -> None:
        self._session = session
        self._jvm = jvm or Py4JBridge(session)

    @cached_property
    def _java(self) -> Any:
        # Each driver creates this object when it starts. Most sessions do not need the class then.
        return compile_java(self._jvm.root, "CatalogTables")

    @cached_property
    def java_catalog(self) -> Any:
        """Spark's SessionCatalog, which reads the settings of the thread's active session."""
        self._jvm.activate()
        return self._jvm.state.catalog()

    @cached_property
    def persistent(self) -> bool:
        """Whether the tables outlive the application."""
        return self._session.conf.get("spark.sql.catalogImplementation") == "hive"

    @property
    def warehouse(self) -> str:
        """Directory in which the catalog creates databases."""
        return str(self._jvm.state.conf().warehousePath())

    def read_hadoop_conf(self, *keys: str) -> list[str | None]:
        """Return the values of these keys in Hadoop's configuration of the session."""
        conf = self._jvm.state.newHadoopConf()
        return [conf.get(key) for key in keys]

    def read_application_conf(self, key: str) -> str:
        """Return a value of the application's configuration; empty if it has none."""
        return str(self._jvm.context.conf().get(key, ""))

    def has_database(self, database: str) -> bool:
        return bool(self.java_catalog.databaseExists(database))

    def find(self, path: TablePath) -> CatalogEntry | None:
        """Return what the catalog says of a name, past all caches; None if the name is free."""
        found = self._java.describe(self._jvm.session, path.namespace[0], path.table)
        return None if found is None else CatalogEntry.from_json(json.loads(found))

    def resolve(self, parts: Sequence[str]) -> tuple[TablePath, CatalogEntry] | None:
        """Return the table or view of this catalog that a name means in the session, or None."""
        found = self._java.resolve(self._jvm.session, json.dumps(list(parts)))
        if found is None:
            return None
        values = json.loads(found)
        path = TablePath("spark_catalog", (values["database"],), values["name"])
        return path, CatalogEntry.from_json(values)

    def refresh(self, path: TablePath, location: str) -> None:
        """Let the application read the changed files of a table, and update its statistics."""
        self._java.refresh(self._jvm.session, path.namespace[0], path.table, location)

    def kind_of(self, path: TablePath) -> RelationKind | None:
        """Return the kind of the relation with this name, or None if the name is free."""
        entry = self.find(path)
        return None if entry is None else entry.kind

    def properties(self, path: TablePath) -> dict[str, str]:
        """Return the table properties of an existing table."""
        entry = self.find(path)
        if entry is None:
            # Raises Spark's error, unless the table was created just now.
            metadata = self.java_catalog.getTableMetadata(self.identifier(path))
            return self._jvm.map_of(metadata.properties())
        if entry.provider == "delta":
            # Delta keeps the properties in its log, and none in the catalog.
            return V2Catalog(self._session, path.catalog).properties(path)
        return entry.properties

    def view_text(self, path: TablePath) -> str | None:
        """Return the query of an existing view as it was written; None for a table."""
        text = self.java_catalog.getTableMetadata(self.identifier(path)).viewText()
        return str(text.get()) if text.isDefined() else None

    def list_tables(self, path: TablePath, prefix: str) -> list[TablePath]:
        """Return the tables in the namespace of `path` whose names begin with a prefix."""
        identifiers = self.java_catalog.listTables(path.namespace[0], f"{prefix}*", False)
        names = [str(each.table()) for each in list_of(identifiers)]
        # Hive's pattern ignores the case, and other characters have a meaning in it.
        return [path.sibling(name) for name in names if name.lower().startswith(prefix.lower())]

    def set_property(self, path: TablePath, key: str, value: str) -> None:
        """Set a property of an existing table."""
        clause = f"{quote_string(key)} = {quote_string(value)}"
        self._session.sql(f"ALTER TABLE {path.sql_name} SET TBLPROPERTIES ({clause})")

    def default_location(self, path: TablePath) -> str:
        """Return the URI that the catalog assigns to a table without a LOCATION.

        If the database was dropped, this is the URI in a new database of that name.
        """
        if self.persistent:
            # A metastore knows lower case only. A session that distinguishes cases keeps capitals.
            path = path.sibling(path.table.lower())
        try:
            return self._jvm.location_of(self.java_catalog.defaultTablePath(self.identifier(path)))
        except AnalysisException as error:
            if error.getCondition() != "SCHEMA_NOT_FOUND":
                raise
        database = self.java_catalog.getDefaultDBPath(path.namespace[0])
        return f"{self._jvm.location_of(database)}/{path.table}"

    def find_delta_version(self, path: TablePath, writer: str) -> int | None:
        """Return the last version that a writer has committed to an existing table of Delta."""
        _log, snapshot = self._update_delta_log(path)
        version = option_value(snapshot.transactions().get(writer))
        return None if version is None else int(version)

    def known_delta_version(self, path: TablePath) -> int:
        """Return the version of an existing table of Delta that this application has read last.

        The analysis of a statement reads the newest version of its tables.
        """
        return int(self._delta_log(path).unsafeVolatileSnapshot().version())

    def has_delta_commit(self, path: TablePath, user_metadata: str, *, after: int) -> bool:
        """Return whether a table of Delta has a commit with this `userMetadata` after a version.

        Raises CatalogError if Delta has deleted commits since then, of which one may have had it.
        """
        log, snapshot = self._update_delta_log(path)
        count = int(snapshot.version()) - after
        if count <= 0:
            return False
        history = log.history().getHistory(after + 1, self._jvm.none(), self._jvm.none())
        commits = list_of(history)
        if any(option_value(commit.userMetadata()) == user_metadata for commit in commits):
            return True
        if len(commits) < count:
            raise CatalogError(
                f"It is not known whether the statement has changed the table {path.sql_name}:"
                f" Delta has deleted commits after version {after} from its log."
            )
        return False

    def _delta_log(self, path: TablePath) -> Any:
        logs = self._jvm.type("org.apache.spark.sql.delta.DeltaLog")
        table = self.java_catalog.getTableMetadata(self.identifier(path))
        return logs.forTable(self._jvm.session, table)

    def _update_delta_log(self, path: TablePath) -> tuple[Any, Any]:
        """Return the log of a table of Delta, and its newest snapshot."""
        log = self._delta_log(path)
        may_be_stale = False
        return log, log.update(may_be_stale, self._jvm.none(), self._jvm.none())

    def find_format(self, path: TablePath) -> tuple[str, str]:
        """Return the format, in lower case, and the URI of an existing table with a format."""
        metadata = self.java_catalog.getTableMetadata(self.identifier(path))
        location = self._jvm.location_of(metadata.location())
        return str(metadata.provider().get()).lower(), location

    def managed_location(self, path: TablePath) -> str | None:
        """Return the URI of a managed table, or None if there is no managed table of that name."""
        identifier = self.identifier(path)
        if not self.java_catalog.tableExists(identifier):
            # `getTablesByName` raises an error if the database was dropped.
            return None
        locations = self._managed_locations(self._jvm.sequence([identifier]))
        return locations[0] if locations else None

    def managed_locations(self, path: TablePath, prefix: str) -> list[str]:
        """Return the URIs of the managed tables in a namespace whose names begin with a prefix.

        Args:
            path: Any table of the namespace.
        """
        identifiers = self.java_catalog.listTables(path.namespace[0], f"{prefix}*", False)
        return self._managed_locations(identifiers)

    def _managed_locations(self, identifiers: Any) -> list[str]:
        # Spark omits tables that were dropped since they were listed.
        tables = list_of(self.java_catalog.getTablesByName(identifiers))
        managed = [table for table in tables if table.tableType().name() == "MANAGED"]
        return [self._jvm.location_of(table.location()) for table in managed]

    def publish(self, path: TablePath, target: TablePath) -> None:
        """Rename a table that no query has read yet. Raises like `rename`.

        This skips the ALTER TABLE statement, which resolves the table to find cached queries, and
        the checks of SessionCatalog, which call a metastore five times. The metastore itself makes
        the same checks when it renames the table. It also accepts names that Spark refuses.
        """
        staged, published = self.identifier(path), self.identifier(target)
        self.java_catalog.invalidateCachedTable(staged)
        # This session may have cached the files of a table that had the target name before.
        self.java_catalog.invalidateCachedTable(published)
        if not self.persistent:
            with self._keep_partitions(path, target):
                self.java_catalog.renameTable(staged, published)
            return
        if not is_valid_name(target.table):
            self.java_catalog.renameTable(staged, published)
            return
        database = self.java_catalog.qualifyIdentifier(staged).database().get()
        # A metastore has lower case only. With capitals, which a session that distinguishes cases
        # keeps, Spark would look for the files of the table in another directory.
        old, new = path.table.lower(), target.table.lower()
        self.java_catalog.externalCatalog().renameTable(database, old, new)

    def rename(self, path: TablePath, target: TablePath) -> None:
        """Rename a table.

        Raises:
            PySparkException: the target name exists, or its default location holds files.
        """
        new_name = target.sql_name.partition(".")[2]
        with nullcontext() if self.persistent else self._keep_partitions(path, target):
            self._session.sql(f"ALTER TABLE {path.sql_name} RENAME TO {new_name}")

    def drop(self, path: TablePath) -> None:
        """Drop a table, with its files if it is managed. Do nothing if it does not exist."""
        self._session.sql(f"DROP TABLE IF EXISTS {path.sql_name}")

    def relocate(
        self, path: TablePath, old_location: str, new_location: str, *, include_table: bool
    ) -> None:
        """Change the catalog's locations of the partitions, and optionally of the table itself.

        The new location is beside the old one, or contains it. This moves no files.
        """
        old_name = old_location.rpartition("/")[2]
        old_parent = old_location.rpartition("/")[0]
        new_name = "" if new_location == old_parent else new_location.rpartition("/")[2] + "/"
        self._place_partitions(
            path,
            [
                (partition, location.replace(f"/{old_name}/", f"/{new_name}", 1))
                for partition, location in self._list_partitions(path)
            ],
        )
        if include_table:
            # Not by SQL: Delta's ALTER TABLE looks for its log at the old location.
            command: Any = self._jvm.type(_SET_LOCATION_COMMAND)
            command(self.identifier(path), self._jvm.none(), new_location).run(self._jvm.session)
        self._session.sql(f"REFRESH TABLE {path.sql_name}")

    @contextmanager
    def _keep_partitions(self, path: TablePath, target: TablePath) -> Iterator[None]:
        """Keep the partitions of a table of Spark's in-memory catalog while it is renamed.

        InMemoryCatalog.renameTable moves the files of a managed table. It encodes the URIs of the
        partitions a second time, and leaves some of them at the old directory: the rows of a
        partition are lost if its directory has a character that URIs escape, such as a space.
        """
        partitions = self._list_partitions(path)
        if not partitions:
            yield
            return
        old_location = self._location(path)
        yield
        new_location = self._location(target)
        self._place_partitions(
            target,
            [
                (partition, _move(location, old_location, new_location))
                for partition, location in partitions
            ],
        )
        self.java_catalog.invalidateCachedTable(self.identifier(target))

    def _location(self, path: TablePath) -> str:
        metadata = self.java_catalog.getTableMetadata(self.identifier(path))
        return self._jvm.location_of(metadata.location())

    def _list_partitions(self, path: TablePath) -> list[tuple[Any, str]]:
        """Return the partitions that the catalog tracks for a table, with their locations."""
        metadata = self.java_catalog.getTableMetadata(self.identifier(path))
        if metadata.partitionColumnNames().isEmpty() or not metadata.tracksPartitionsInCatalog():
            return []
        found = self.java_catalog.externalCatalog().listPartitions(
            path.namespace[0], path.table, self._jvm.none()
        )
        return [
            (partition, self._jvm.location_of(partition.storage().locationUri().get()))
            for partition in list_of(found)
        ]

    def _place_partitions(self, path: TablePath, partitions: list[tuple[Any, str]]) -> None:
        """Change the locations of partitions in the catalog. This moves no files."""
        placed = [self._place_partition(partition, location) for partition, location in partitions]
        if placed:
            self.java_catalog.externalCatalog().alterPartitions(
                path.namespace[0], path.table, self._jvm.sequence(placed)
            )

    def _place_partition(self, partition: Any, location: str) -> Any:
        storage = partition.storage()
        placed_storage = storage.copy(
            self._jvm.some(self._jvm.type(HADOOP_PATH)(location).toUri()),
            storage.inputFormat(),
            storage.outputFormat(),
            storage.serde(),
            storage.compressed(),
            storage.properties(),
        )
        return partition.copy(
            partition.spec(),
            placed_storage,
            partition.parameters(),
            partition.createTime(),
            partition.lastAccessTime(),
            partition.stats(),
        )

    def identifier(self, path: TablePath) -> Any:
        """Return Spark's TableIdentifier of a table."""
        return self._java.identify(path.namespace[0], path.table)


def _move(location: str, old_parent: str, new_parent: str) -> str:
    """Return the location after a rename of a directory that may contain it."""
    inside = location.removeprefix(f"{old_parent}/")
    return location if inside == location else f"{new_parent}/{inside}"
