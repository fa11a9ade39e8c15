"""A table of Spark's own catalog that is written under a hidden name and published by a rename."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pydantic import BaseModel
from pyspark.errors import PySparkException

from headrace.driver.ctas.base import PROPERTY, STAGED, Destination, TablePath, TwoPhaseTable
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.metastore_rename import MetastoreRenames
from headrace.driver.ctas.preconditions import already_exists, location_not_empty
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.errors import CatalogError, StatementFailed


class StagedRecord(BaseModel):
    """What the journal keeps of it. Places are URIs."""

    transaction: str
    target: TablePath
    staged: TablePath
    rows_at: str
    """Where the rows are written: nothing but this table's is ever there."""
    final: str
    """Where they are when it is published."""
    external: bool
    """Whether `final` is the user's LOCATION, with `rows_at` in it."""
    made_final: bool
    """Whether `final` was not there before."""
    replaced: TablePath | None = None
    """The name that the table has while it is being replaced; None where none is."""
    files: list[str] | None = None
    """Of an external table, all its files, relative to `rows_at`; None before they are written."""
    mark: str | None = None
    """Of any other, one of them, by which they are known wherever they are."""


class StagedTable(TwoPhaseTable):
    """Drives one of them; see TwoPhaseTable."""

    def __init__(
        self, record: StagedRecord, tables: V1Catalog, files: HadoopFiles, *, restored: bool = False
    ) -> None:
        self._is = record
        self._tables = tables
        self._files = files
        self._renames = MetastoreRenames(tables, files)
        self._tried = restored
        self.destination = Destination(
            path=record.staged,
            location=record.rows_at if record.external else None,
            properties={PROPERTY: record.transaction},
        )
        self.location = record.final if record.external else None
        # Between two renames nobody has the name.
        self.atomic = record.replaced is None

    def begin(self) -> None:
        """The statement's own write makes all there is."""

    def seal(self) -> None:
        if self._is.external:
            files = self._files.files_below(self._is.rows_at)
            self._is = self._is.model_copy(update={"files": files})
        else:
            mark = self._files.first_below(self._is.rows_at)
            self._is = self._is.model_copy(update={"mark": mark})

    def published(self) -> bool:
        target = self._is.target
        if self._tables.kind_of(target) != "table":
            return False
        return self._tables.properties(target).get(PROPERTY) == self._is.transaction

    def commit(self) -> None:
        # The first time the rename itself says what stands in its way: every look costs a call.
        if self._tried:
            self._undo_halves()
            if self._finished():
                return
        self._tried = True
        if self._is.replaced is not None or self._is.external:
            self._step_aside()
        if self._is.external:
            self._move_files()
        else:
            self._make_way()
        try:
            self._tables.publish(self._is.staged, self._is.target)
        except (PySparkException, Py4JError) as error:
            # One that was answered by an error may have been made all the same, or half.
            if self._finished():
                return
            if self._is_half():
                # To be tried again.
                raise
            raise self._refused(error) from error
        self._tidy()

    def abort(self) -> None:
        # A commit that was answered by an error may have been made, and not been seen.
        if self.published():
            raise CatalogError(f"{self._is.target.quoted()} is published: nothing is removed.")
        self._undo_halves()
        self._put_back()
        self._tables.drop(self._is.staged)
        if self._is.external:
            self._take_files_back()
        self._files.remove(self._is.rows_at)
        if self._is.made_final:
            self._files.remove_if_empty(self._is.final)

    def record(self) -> dict[str, Any]:
        return self._is.model_dump(mode="json")

    def _is_half(self) -> bool:
        known = self._is
        return known.mark is not None and self._renames.is_half(
            known.staged, known.final, known.mark
        )

    def _undo_halves(self) -> None:
        """Of the renames that lead to the new table: where one is half made, none can be."""
        if self._is.mark is not None:
            self._renames.undo_half(self._is.staged, self._is.final, self._is.mark)
        replaced = self._is.replaced
        if replaced is not None and self._tables.kind_of(replaced) is None:
            self._renames.undo_half(self._is.target, self._tables.default_location(replaced))

    def _finished(self) -> bool:
        """Whether the table was published before; what is left to do then is done."""
        if not self.published():
            return False
        if not self._is.external:
            self._renames.follow(self._is.rows_at, self._is.final)
        self._tidy()
        return True

    def _step_aside(self) -> None:
        """The name is free after this: the table that is replaced, and no other, has another."""
        if self._tables.kind_of(self._is.staged) is None:
            raise self._gone()
        there, replaced = self._tables.kind_of(self._is.target), self._is.replaced
        if there == "table" and replaced is not None and self._tables.kind_of(replaced) is None:
            self._tables.rename(self._is.target, replaced)
        elif there is not None:
            raise already_exists(self._is.target, there)

    def _make_way(self) -> None:
        """A rename moves the rows to where nothing may be, not even an empty directory."""
        if not self._files.remove_if_empty(self._is.final):
            raise self._refused()
        if not self._tables.persistent:
            # A rename in memory leaves the partitions where they were.
            if self._tables.kind_of(self._is.staged) is None:
                raise self._gone()
            self._tables.relocate(
                self._is.staged, self._is.rows_at, self._is.final, table_too=False
            )

    def _move_files(self) -> None:
        """Up into the LOCATION. Whoever did so before may have been interrupted anywhere."""
        rows_at, final, files = self._is.rows_at, self._is.final, self._is.files or []
        if self._others_are_there():
            raise location_not_empty(self._is.target, final)
        for file in files:
            source, target = f"{rows_at}/{file}", f"{final}/{file}"
            if self._files.exists(source):
                if not self._files.move(source, target):
                    raise location_not_empty(self._is.target, self._is.final)
            elif not self._files.exists(target):
                raise CatalogError(f"A file of {self._is.target.quoted()} is gone: {source}")
        self._tables.relocate(self._is.staged, rows_at, final, table_too=True)

    def _others_are_there(self) -> bool:
        """Whether the LOCATION holds files that are neither its own nor staged."""
        rows_at, final = self._is.rows_at, self._is.final
        if self._files.is_empty(final, but=f"_{STAGED}"):
            return False
        staging = (f"_{STAGED}", f"{rows_at.rpartition('/')[2]}/")
        there = set(self._files.files_below(final)).difference(self._is.files or [])
        return not all(one.startswith(staging) for one in there)

    def _take_files_back(self) -> None:
        """Removes those that were moved already: `final` was empty, and a move replaces nothing."""
        if not self._files.exists(self._is.rows_at):
            return
        for file in self._is.files or []:
            if not self._files.exists(f"{self._is.rows_at}/{file}"):
                self._files.remove(f"{self._is.final}/{file}")

    def _put_back(self) -> None:
        """The table that was to be replaced, unless somebody has taken its name since."""
        replaced = self._is.replaced
        if replaced is None or self._tables.kind_of(replaced) is None:
            return
        if self._tables.kind_of(self._is.target) is not None:
            raise CatalogError(
                f"The table that {self._is.target.quoted()} was is {replaced.quoted()} now, and "
                "somebody has made another of its name."
            )
        self._renames.undo_half(replaced, self._tables.default_location(self._is.target))
        self._tables.rename(replaced, self._is.target)

    def _refused(self, error: Exception | None = None) -> StatementFailed:
        """What stands in the way of the rename, which is not made."""
        there = self._tables.kind_of(self._is.target)
        if there is not None:
            return already_exists(self._is.target, there)
        if not self._is.external and not self._files.is_empty(self._is.final):
            return location_not_empty(self._is.target, self._is.final)
        if self._tables.kind_of(self._is.staged) is None:
            return self._gone()
        return CatalogError(f"{self._is.target.quoted()} cannot be published: {error}")

    def _gone(self) -> CatalogError:
        return CatalogError(
            f"The rows of {self._is.target.quoted()} are gone: somebody has dropped "
            f"{self._is.staged.quoted()}."
        )

    def _tidy(self) -> None:
        if self._is.replaced is not None:
            self._tables.drop(self._is.replaced)
        if self._is.external:
            self._files.remove(self._is.rows_at)
