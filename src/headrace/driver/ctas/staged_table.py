"""A session catalog table that is written under a hidden name and published by a rename."""

from __future__ import annotations

import logging
import time
from typing import Annotated, Any

from py4j.protocol import Py4JError
from pydantic import AfterValidator, BaseModel
from pyspark.errors import PySparkException

from headrace.driver.ctas.base import (
    STAGING_PREFIX,
    TRANSACTION_PROPERTY,
    TwoPhaseTable,
)
from headrace.driver.ctas.preconditions import (
    location_not_empty_error,
    staged_table_missing_error,
    table_exists_error,
)
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.ctas_plan import WriteTarget
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.errors import CatalogError, LocationNotEmpty, StatementFailed

_LOG = logging.getLogger("headrace.driver")
_METASTORE_GRACE_SECONDS = 15.0
"""Time for which a metastore may still work on a rename after its client has died."""
_POLL_SECONDS = 0.25


class MetastoreRenames:
    """Finds and repairs half-finished renames in one catalog."""

    def __init__(self, catalog: V1Catalog, files: HadoopFiles) -> None:
        self._catalog = catalog
        self._files = files

    def may_be_in_progress(self, path: TablePath) -> bool:
        """Return whether a rename of a staged table in the target's namespace may be in progress.

        The files of such a table are no longer at the location that the catalog names.
        """
        return any(
            not self._files.exists(location)
            for location in self._catalog.managed_locations(path, STAGING_PREFIX)
        )

    def is_half_finished(self, path: TablePath, new_location: str, marker_file: str) -> bool:
        """Return whether the rename moved the files of the table but did not change its name.

        Args:
            marker_file: File that the transaction has written to the table's directory before the
                rename. It distinguishes the directory from any other one at the new location.
        """
        return self._find_abandoned_location(path, new_location, marker_file) is not None

    def undo_half_finished(self, path: TablePath, new_location: str, marker_file: str) -> None:
        """Move the files of a table back to the location that the catalog names.

        Do nothing if the rename is not half-finished, or if the metastore completes it meanwhile.

        Raises:
            CatalogError: the files cannot be moved.
        """
        deadline = time.monotonic() + _METASTORE_GRACE_SECONDS
        while (
            location := self._find_abandoned_location(path, new_location, marker_file)
        ) is not None:
            if time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                continue
            if not self._files.move(new_location, location):
                raise CatalogError(
                    f"A rename of {path.sql_name} was interrupted, and its files cannot be moved"
                    f" back from {new_location} to {location}. Run headrace recover to try again."
                )
            _LOG.warning(
                "repaired an interrupted rename of %s: moved its files back from %s",
                path.sql_name,
                new_location,
            )
            return

    def move_files_to_new_name(self, location: str, new_location: str) -> None:
        """Move the files of a renamed table to the location of its new name.

        This is needed if `undo_half_finished` moved the files just before the rename completed.
        """
        if self._files.exists(location) and self._files.remove_if_empty(new_location):
            self._files.move(location, new_location)

    def _find_abandoned_location(
        self, path: TablePath, new_location: str, marker_file: str
    ) -> str | None:
        """Return the table's location in the catalog if its files are at the new location instead.

        Returns None if the rename has not begun, has completed, or concerns no managed table.
        """
        location = self._catalog.managed_location(path)
        if location is None or not self._files.exists(f"{new_location}/{marker_file}"):
            return None
        return None if self._files.exists(location) else location


_SWAP_NOTE = (
    "The table was replaced by two renames: for some milliseconds, readers found no table of this"
    " name. A failure keeps or restores the old table."
)


def _check_relative_file(path: str) -> str:
    """Return the path of a file below a directory. Raise ValueError for any other path."""
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError("is not a path below the staging location")
    return path


RelativeFile = Annotated[str, AfterValidator(_check_relative_file)]


class StagedRecord(BaseModel):
    """Journal record of a StagedTable. Locations are URIs."""

    transaction: str
    target: TablePath
    staged: TablePath
    staging_location: str
    """Directory that only this transaction writes to."""
    final_location: str
    """Directory of the files after the commit."""
    external: bool
    """Whether `final_location` is the user's LOCATION. It then contains `staging_location`."""
    created_final_location: bool
    """Whether `final_location` did not exist before this transaction."""
    backup: TablePath | None = None
    """Name of the replaced table until the commit drops it. None if no table is replaced."""
    files: list[RelativeFile] | None = None
    """All files of an external table, relative to `staging_location`, from the end of the write."""


class StagedTable(TwoPhaseTable):
    """A two-phase table of the session catalog."""

    def __init__(
        self,
        record: StagedRecord,
        catalog: V1Catalog,
        files: HadoopFiles,
        *,
        restored: bool = False,
    ) -> None:
        self._record = record
        self._catalog = catalog
        self._files = files
        self._renames = MetastoreRenames(catalog, files)
        self._commit_may_have_begun = restored
        self.write_target = WriteTarget(
            path=record.staged,
            location=record.staging_location if record.external else None,
            properties={TRANSACTION_PROPERTY: record.transaction},
        )
        self.location = record.final_location if record.external else None
        # A replacement takes two renames. Between them no table has the name.
        self.atomic = record.backup is None
        self.note = None if self.atomic else _SWAP_NOTE

    def begin(self) -> None:
        """Do nothing: Spark's write creates the staged table."""

    def finish_write(self) -> None:
        location = self._record.staging_location
        if self._record.external:
            files = self._files.list_files(location)
            self._record = self._record.model_copy(update={"files": files})
        else:
            self._files.touch(f"{location}/{_marker(self._record.staged)}")

    def is_published(self) -> bool:
        target = self._record.target
        if self._catalog.kind_of(target) != "table":
            return False
        transaction = self._catalog.properties(target).get(TRANSACTION_PROPERTY)
        return transaction == self._record.transaction

    def commit(self) -> None:
        # A first attempt skips these checks: each costs a call to the metastore, and the rename
        # itself reports a conflict.
        if self._commit_may_have_begun:
            self._undo_half_finished_renames()
            if self._complete_if_published():
                return
        self._commit_may_have_begun = True
        if self._record.backup is not None or self._record.external:
            self._free_target_name()
        if self._record.external:
            self._move_files_to_location()
        else:
            self._prepare_rename()
        try:
            self._catalog.publish(self._record.staged, self._record.target)
        except (PySparkException, Py4JError) as error:
            # A rename that reports an error may still have completed, in full or in part.
            if self._complete_if_published():
                return
            if self._is_rename_half_finished():
                # The caller commits again, which repairs the rename first.
                raise
            raise self._explain_rename_error(error) from error
        self._clean_up()

    def abort(self) -> None:
        # A commit that reported an error may have published the table without noticing it.
        if self.is_published():
            raise CatalogError(
                f"Table {self._record.target.sql_name} is already published and was not removed."
            )
        self._undo_half_finished_renames()
        self._restore_replaced_table()
        self._catalog.drop(self._record.staged)
        if self._record.external:
            self._remove_moved_files()
        # The directory in it shows that this transaction has written to the LOCATION.
        has_written = self._files.exists(self._record.staging_location)
        self._files.remove(self._record.staging_location)
        if self._record.created_final_location and has_written:
            self._files.remove_if_empty(self._record.final_location)

    def to_record(self) -> dict[str, Any]:
        return self._record.model_dump(mode="json")

    def _is_rename_half_finished(self) -> bool:
        record = self._record
        return not record.external and self._renames.is_half_finished(
            record.staged, record.final_location, _marker(record.staged)
        )

    def _undo_half_finished_renames(self) -> None:
        """Undo a half-finished rename of the staged table or of the replaced one.

        At most one of the two can be half-finished.
        """
        record = self._record
        if not record.external:
            self._renames.undo_half_finished(
                record.staged, record.final_location, _marker(record.staged)
            )
        if record.backup is not None and self._catalog.kind_of(record.backup) is None:
            backup_location = self._catalog.default_location(record.backup)
            marker = _marker(record.backup)
            self._renames.undo_half_finished(record.target, backup_location, marker)

    def _complete_if_published(self) -> bool:
        """Finish the remaining steps if the table is published. Return whether it is."""
        if not self.is_published():
            return False
        if not self._record.external:
            self._renames.move_files_to_new_name(
                self._record.staging_location, self._record.final_location
            )
        self._clean_up()
        return True

    def _free_target_name(self) -> None:
        """Rename the table that is to be replaced to its backup name.

        Raises:
            TableAlreadyExists: another table or view has the target name.
            CatalogError: the staged table is missing.
        """
        if self._catalog.kind_of(self._record.staged) is None:
            raise self._staged_table_missing()
        existing, backup = self._catalog.kind_of(self._record.target), self._record.backup
        if existing == "table" and backup is not None and self._catalog.kind_of(backup) is None:
            location = self._catalog.managed_location(self._record.target)
            if location is not None:
                self._files.touch(f"{location}/{_marker(backup)}")
            self._catalog.rename(self._record.target, backup)
        elif existing is not None:
            raise table_exists_error(self._record.target, existing)

    def _prepare_rename(self) -> None:
        """Remove an empty directory at the final location, to which the rename moves the files."""
        if not self._files.remove_if_empty(self._record.final_location):
            raise self._explain_rename_error()
        if not self._catalog.persistent:
            # Spark's InMemoryCatalog does not change partition locations in a rename.
            if self._catalog.kind_of(self._record.staged) is None:
                raise self._staged_table_missing()
            self._catalog.relocate(
                self._record.staged,
                self._record.staging_location,
                self._record.final_location,
                include_table=False,
            )

    def _move_files_to_location(self) -> None:
        """Move the staged files up into the LOCATION, including after an interrupted attempt."""
        record = self._record
        if self._has_foreign_files():
            raise self._location_not_empty()
        for file in record.files or []:
            source, target = f"{record.staging_location}/{file}", f"{record.final_location}/{file}"
            if self._files.exists(source):
                if not self._files.move(source, target):
                    raise self._location_not_empty()
            elif not self._files.exists(target):
                raise CatalogError(
                    f"A staged file of table {record.target.sql_name} is missing: {source}. Run"
                    " the statement again."
                )
        self._catalog.relocate(
            record.staged, record.staging_location, record.final_location, include_table=True
        )

    def _has_foreign_files(self) -> bool:
        """Return whether the LOCATION holds files that are neither this table's nor staged."""
        staging_location, final_location = (
            self._record.staging_location,
            self._record.final_location,
        )
        if self._files.is_empty(final_location, ignore_prefix=f"_{STAGING_PREFIX}"):
            return False
        staging = (f"_{STAGING_PREFIX}", f"{staging_location.rpartition('/')[2]}/")
        others = set(self._files.list_files(final_location)).difference(self._record.files or [])
        return not all(file.startswith(staging) for file in others)

    def _remove_moved_files(self) -> None:
        """Remove the files that a commit has already moved into the LOCATION.

        These files belong to this transaction: the LOCATION was empty, and a move replaces no file.
        """
        staging_location = self._record.staging_location
        if not self._files.exists(staging_location):
            return
        for file in self._record.files or []:
            if not self._files.exists(f"{staging_location}/{file}"):
                self._files.remove(f"{self._record.final_location}/{file}")

    def _restore_replaced_table(self) -> None:
        """Rename the replaced table back from its backup name.

        Raises:
            CatalogError: another table has the target name.
        """
        backup, target = self._record.backup, self._record.target
        if backup is None or self._catalog.kind_of(backup) is None:
            return
        if self._catalog.kind_of(target) is not None:
            raise CatalogError(
                f"The replaced table {target.sql_name} could not be restored, because another"
                f" table of that name was created. The replaced table is now {backup.sql_name}."
                " Rename or drop the other table, and run headrace recover."
            )
        location, marker = self._catalog.default_location(target), _marker(backup)
        self._renames.undo_half_finished(backup, location, marker)
        self._catalog.rename(backup, target)
        self._files.remove(f"{location}/{marker}")

    def _explain_rename_error(self, error: Exception | None = None) -> StatementFailed:
        """Return the reason why the staged table cannot get the target name."""
        record = self._record
        existing = self._catalog.kind_of(record.target)
        if existing is not None:
            return table_exists_error(record.target, existing)
        if not record.external and not self._files.is_empty(record.final_location):
            return self._location_not_empty()
        if self._catalog.kind_of(record.staged) is None:
            return self._staged_table_missing()
        return CatalogError(f"Table {record.target.sql_name} could not be published: {error}")

    def _staged_table_missing(self) -> CatalogError:
        return staged_table_missing_error(self._record.target, self._record.staged)

    def _location_not_empty(self) -> LocationNotEmpty:
        record = self._record
        return location_not_empty_error(
            record.target, record.final_location, is_external=record.external
        )

    def _clean_up(self) -> None:
        record = self._record
        if record.backup is not None:
            self._catalog.drop(record.backup)
        if record.external:
            self._files.remove(record.staging_location)
        else:
            self._files.remove(f"{record.final_location}/{_marker(record.staged)}")


def _marker(path: TablePath) -> str:
    """Return the name of the file that shows which transaction has renamed a directory.

    The transaction writes the file before the rename, and readers skip it. The name follows from
    the transaction: a forged record cannot make another directory look like that of its table.
    """
    return f"_{path.table}"
