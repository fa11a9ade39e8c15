"""Detection and repair of half-finished renames of managed tables.

A Hive metastore (`HiveAlterHandler.alterTable`) first moves the directory. It then changes the
entries of partitions and table in one transaction of its database, which takes seconds with many
partitions. If the metastore dies in between, the files are at the new location while the catalog
still has the old name.
"""

from __future__ import annotations

import logging
import time

from headrace.driver.ctas.base import TablePath
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.errors import CatalogError

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
            not self._files.exists(location) for location in self._catalog.staged_locations(path)
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
