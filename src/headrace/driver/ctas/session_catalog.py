"""Two-phase tables of Spark's session catalog, in memory or on a Hive metastore.

The rows go to a table with a hidden name, and one rename publishes it. With a LOCATION, the rows go
to a directory inside the location, and the commit moves the files up before the rename.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import (
    STAGING_PREFIX,
    ExistingTable,
    JournalledTable,
    TableDefinition,
    TwoPhaseCatalog,
    TwoPhaseChange,
    TwoPhaseTable,
    TwoPhaseWrite,
    WriteDefinition,
)
from headrace.driver.ctas.preconditions import (
    check_target,
    invalid_name_error,
    location_not_empty_error,
)
from headrace.driver.ctas.staged_table import MetastoreRenames, StagedRecord, StagedTable
from headrace.driver.spark_version.catalogs import RelationKind, TablePath, V1Catalog, is_valid_name
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.writes.staged_write import create_staged_write, restore_staged_write
from headrace.model.materialized_view import MATERIALIZED_VIEW_PROPERTY, generation_name
from headrace.model.transaction import MANAGED_CATALOG_KEY

_ALLOW_NON_EMPTY_LOCATION = "spark.sql.legacy.allowNonEmptyLocationInCTAS"
_METASTORE_ADDRESS = "hive.metastore.uris"
_METASTORE_DATABASE = "javax.jdo.option.ConnectionURL"


class SessionCatalog(TwoPhaseCatalog):
    """`spark_catalog`, for all file formats."""

    kind = "session"
    refreshes_views = True

    def __init__(self, session: SparkSession, catalog: str) -> None:
        super().__init__(session, catalog)
        self._files = HadoopFiles(session)
        self._v1_catalog = V1Catalog(session)
        self._renames = MetastoreRenames(self._v1_catalog, self._files)

    def identity(self) -> str:
        return self._identity

    @cached_property
    def _identity(self) -> str:
        values: dict[str, Any] = {"kind": "session"}
        if self._v1_catalog.persistent:
            address, database = self._v1_catalog.read_hadoop_conf(
                _METASTORE_ADDRESS, _METASTORE_DATABASE
            )
            catalog_id = self._managed_catalog_id(address)
            if catalog_id is not None:
                values["catalog"] = catalog_id
            else:
                keys = {_METASTORE_ADDRESS: address, _METASTORE_DATABASE: database}
                values |= {key: value for key, value in keys.items() if value}
        else:
            # The tables end with their driver, but their staged files remain in the warehouse.
            values["warehouse"] = self._v1_catalog.warehouse
        return json.dumps(values, sort_keys=True)

    def find_view_id(self, path: TablePath) -> str | None:
        if self._v1_catalog.kind_of(path) is None:
            return None
        return self._v1_catalog.properties(path).get(MATERIALIZED_VIEW_PROPERTY)

    def kind_of(self, path: TablePath) -> RelationKind | None:
        """Return the kind of the relation with this name, or None if the name is free."""
        return self._v1_catalog.kind_of(path)

    def list_generations(self, view: TablePath) -> list[tuple[int, TablePath]]:
        """Return the tables that are named like generations of a view, with their numbers."""
        prefix = generation_name(view.table, 0)[:-1]
        tables = self._v1_catalog.list_tables(view, prefix)
        numbered = [(table.table[len(prefix) :], table) for table in tables]
        return [(int(number), table) for number, table in numbered if number.isdecimal()]

    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,
    ) -> TwoPhaseTable | None:
        if self.session.conf.get(_ALLOW_NON_EMPTY_LOCATION) == "true":
            return None
        existing = self._v1_catalog.kind_of(path)
        if check_target(
            path, existing, self._has_namespace, table, ignore_if_exists=ignore_if_exists
        ):
            return ExistingTable(path)
        if not is_valid_name(path.table):
            raise invalid_name_error(path)
        location = table.location and self._files.qualify(table.location)
        final_location = location or self._v1_catalog.default_location(path)
        # A replaced table without a LOCATION vacates its location when it is renamed.
        needs_free_location = existing is None or bool(location)
        if needs_free_location and not self._is_free(
            path, final_location, is_external=bool(location)
        ):
            if existing is None and self._v1_catalog.kind_of(path) is not None:
                # Another transaction published the table between the two checks.
                return self.create_two_phase_table(
                    path, table, ignore_if_exists=ignore_if_exists, is_streaming=is_streaming
                )
            raise location_not_empty_error(path, final_location, is_external=bool(location))
        record = self._make_record(
            table.transaction,
            path,
            table.staging_name,
            location,
            final_location,
            replaces=existing is not None,
        )
        created = location is not None and not self._files.exists(final_location)
        record = record.model_copy(update={"created_final_location": created})
        return StagedTable(record, self._v1_catalog, self._files)

    def create_two_phase_write(
        self, path: TablePath, write: WriteDefinition
    ) -> TwoPhaseWrite | None:
        return create_staged_write(self.session, path, write)

    def restore(self, journalled: JournalledTable) -> TwoPhaseChange:
        # Only the record of a StagedWrite has a fingerprint of its table.
        if "fingerprint" in journalled.record:
            return restore_staged_write(self.session, journalled, self.catalog)
        claimed = StagedRecord.model_validate(journalled.record)
        target = journalled.check_target(claimed.target, self.catalog)
        derived = self._make_record(
            journalled.transaction,
            target,
            journalled.staging_name,
            journalled.location,
            journalled.location or self._v1_catalog.default_location(target),
            replaces=claimed.backup is not None,
        )
        record = derived.model_copy(
            update={
                "created_final_location": claimed.created_final_location,
                "files": claimed.files,
            }
        )
        return StagedTable(record, self._v1_catalog, self._files, restored=True)

    def _make_record(
        self,
        transaction: str,
        path: TablePath,
        staging_name: str,
        location: str | None,
        final_location: str,
        *,
        replaces: bool,
    ) -> StagedRecord:
        """Return a record whose names and places follow from the transaction and its target.

        Args:
            location: URI of the LOCATION clause.
            final_location: The same, or the URI that the catalog assigns to the target.
        """
        staged = path.sibling(staging_name)
        if location:
            # Readers of the LOCATION skip names that begin with an underscore.
            staging_location = f"{location}/_{staged.table}"
        else:
            # The catalog's default locations of two tables of a database are siblings.
            staging_location = f"{final_location.rpartition('/')[0]}/{staged.table}"
        return StagedRecord(
            transaction=transaction,
            target=path,
            staged=staged,
            staging_location=staging_location,
            final_location=final_location,
            external=location is not None,
            created_final_location=False,
            backup=path.sibling(staging_name.replace("staged", "replaced")) if replaces else None,
        )

    def _managed_catalog_id(self, address: str | None) -> str | None:
        """Return the id of the managed catalog; None if the metastore is not the managed one."""
        managed = self._v1_catalog.read_application_conf(MANAGED_CATALOG_KEY)
        catalog_id, _, managed_address = managed.partition(" ")
        return catalog_id if managed_address and managed_address == address else None

    def _is_free(self, path: TablePath, final_location: str, *, is_external: bool) -> bool:
        """Return whether no foreign files will remain at the location until the commit.

        The answer can change meanwhile, so the commit checks again.
        """
        if is_external:
            return self._files.is_empty(final_location, ignore_prefix=f"_{STAGING_PREFIX}")
        return self._files.is_empty(final_location) or self._renames.may_be_in_progress(path)

    def _has_namespace(self, namespace: tuple[str, ...]) -> bool:
        return len(namespace) == 1 and self._v1_catalog.has_database(namespace[0])
