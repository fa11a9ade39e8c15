"""Renames of managed tables, which a metastore makes in two steps.

Hive's (`HiveAlterHandler.alterTable`) moves the directory, then the partitions' and the table's
entries, in a transaction of its database: with many partitions that takes seconds. One that dies
meanwhile leaves the files where the new name's are, while the catalog has the old name.
"""

from __future__ import annotations

import logging
import time

from headrace.driver.ctas.base import TablePath
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.errors import CatalogError

_LOG = logging.getLogger("headrace.driver")
_STILL_AT_IT = 15.0
"""A metastore may go on with what its client did not live to see: it is given so many seconds."""
_PAUSE = 0.25


class MetastoreRenames:
    """Finds those that are half made."""

    def __init__(self, tables: V1Catalog, files: HadoopFiles) -> None:
        self._tables = tables
        self._files = files

    def under_way(self, path: TablePath) -> bool:
        """Whether files of a staged table beside that one may just be on their way to its place."""
        return any(not self._files.exists(one) for one in self._tables.staged_places(path))

    def undo_half(self, path: TablePath, new_place: str, mark: str | None = None) -> None:
        """Brings the files of a table back that is still called so, if they were moved.

        `mark` is one of them, relative to the table's place, where others may have been faster.
        Raises CatalogError when they cannot be moved.
        """
        until = time.monotonic() + _STILL_AT_IT
        while (place := self._left(path, new_place, mark)) is not None:
            if time.monotonic() < until:
                time.sleep(_PAUSE)
                continue
            if not self._files.move(new_place, place):
                raise CatalogError(f"{new_place} cannot be moved back to {place}.")
            _LOG.warning(
                "a rename of %s was cut short: its files are back from %s", path.quoted(), new_place
            )
            return

    def follow(self, place: str, new_place: str) -> None:
        """A table has its new name, but its files were brought back before it had: they follow."""
        if self._files.exists(place) and self._files.remove_if_empty(new_place):
            self._files.move(place, new_place)

    def is_half(self, path: TablePath, new_place: str, mark: str | None = None) -> bool:
        """Whether its files were moved, but not its name; `mark` as in `undo_half`."""
        return self._left(path, new_place, mark) is not None

    def _left(self, path: TablePath, new_place: str, mark: str | None) -> str | None:
        """The place that the files of the table have left, while it has its name."""
        place = self._tables.managed_place(path)
        if place is None or not self._files.exists(f"{new_place}/{mark}" if mark else new_place):
            return None
        return None if self._files.exists(place) else place
