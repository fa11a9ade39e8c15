"""A write to a table of files in Spark's session catalog: stage the files, then move them in.

The rows go to a directory inside the table that readers skip. Before the journal says `committing`,
a manifest in that directory lists every move, and the old files that the write replaces. The commit
follows the manifest, and a repeated commit has the same result. The manifest is in the table's
directory and not in the journal, and names only files of that directory. A user who can change the
manifest can therefore change the files themselves.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import (
    JournalledTable,
    TwoPhaseWrite,
    WriteDefinition,
)
from headrace.driver.ctas.staged_table import RelativeFile
from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.file_insert import StagedRows, WriteMode, describe_rows
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.parameters import empty_frame
from headrace.driver.spark_version.written_table import StagedFiles, WrittenTable
from headrace.errors import CatalogError
from headrace.files.places import identify
from headrace.model.transaction import TableWrite

_MANIFEST = "_manifest.json"
_REPLACING = "_replacing"
"""File that exists before old files are removed: from then on, the commit must be completed."""
_SUCCESS = "_SUCCESS"
_OVERWRITE_NOTE = (
    "The new files were added before the old ones were removed: for some milliseconds, readers may"
    " have seen rows of both."
)


class WriteRecord(BaseModel):
    """Journal record of a StagedWrite."""

    transaction: str
    target: TablePath
    mode: WriteMode
    location: str
    """URI of the table's directory, without a slash at the end."""
    staging: str
    """URI of the directory below `location` that only this transaction writes to."""
    tracks_partitions: bool
    fingerprint: str
    """See `CatalogEntry.fingerprint`, when the write began."""
    rows: int | None = None
    """Number of rows, from the end of the write on; None if it is not known."""
    has_files: bool = False
    """Whether there are files to move, from the end of the write on."""


class CommitManifest(BaseModel):
    """What the commit does. Paths are relative to the table's directory."""

    moves: list[tuple[RelativeFile, RelativeFile]]
    """Source, relative to the staging directory, and target of each file."""
    new_partitions: list[str]
    """Paths of the partitions that the catalog does not have, e.g. `k=1/j=2`."""
    old_files: list[RelativeFile]
    """Files that the write replaces."""
    emptied_partitions: list[str]
    """Paths of the partitions whose rows are replaced by none."""


class StagedWrite(TwoPhaseWrite):
    """A two-phase write to a table of files."""

    def __init__(
        self,
        session: SparkSession,
        record: WriteRecord,
        files: HadoopFiles,
        staged_rows: StagedRows | None = None,
    ) -> None:
        """Create a write.

        Args:
            staged_rows: What is written; None for another driver's write.
        """
        self._session = session
        self._record = record
        self._staged_rows = staged_rows
        self._files = files
        self._table = WrittenTable(session, record.target, files)
        self._staged_files = StagedFiles(session, self._files.conf)
        self._manifest: CommitManifest | None = None
        self._writes_nothing = False
        self.shares_target = record.mode == "append"
        self.locked_files = TableWrite(
            location=identify(record.location),
            table=record.target.lock_key,
            overwrite=not self.shares_target,
        )
        self.rows_written = record.rows
        self.note = None if record.mode == "append" else _OVERWRITE_NOTE

    def begin(self) -> None:
        """Do nothing: Spark's write creates the directory."""

    def run(self) -> DataFrame:
        staged_rows = self._staged_rows
        assert staged_rows is not None
        if staged_rows.keeps_existing and self._partition_exists(staged_rows):
            self._writes_nothing = True
            self.note = "Nothing was done: the partition already exists."
            return empty_frame(self._session)
        frame, self.rows_written = staged_rows.write_to(self._session, self._record.staging)
        return frame

    def finish_write(self) -> None:
        self._manifest = self._make_manifest()
        self._record = self._record.model_copy(
            update={"rows": self.rows_written, "has_files": bool(self._manifest.moves)}
        )
        place = f"{self._record.staging}/{_MANIFEST}"
        self._staged_files.write(place, self._manifest.model_dump_json())

    def is_published(self) -> bool:
        return self._files.exists(f"{self._record.staging}/{_REPLACING}")

    def commit(self) -> None:
        manifest = self._manifest or self._read_manifest()
        if manifest is None:
            # The removal of the staging directory is the last step of a commit.
            self._check_moved()
            return
        record = self._record
        is_replacing = f"{record.staging}/{_REPLACING}"
        replaces = bool(manifest.old_files or manifest.emptied_partitions)
        if not (replaces and self._files.exists(is_replacing)):
            self._check_target()
        self._staged_files.move(
            [
                (f"{record.staging}/{source}", f"{record.location}/{target}")
                for source, target in manifest.moves
            ]
        )
        self._table.add_partitions(manifest.new_partitions)
        if replaces:
            self._staged_files.write(is_replacing, "")
            self._table.drop_partitions(manifest.emptied_partitions)
            self._remove(manifest.old_files)
        self._staged_files.move_if_exists(
            f"{record.staging}/{_SUCCESS}", f"{record.location}/{_SUCCESS}"
        )
        self._table.refresh(record.location)
        self._files.remove(record.staging)
        if self._staged_rows is not None:
            self._staged_rows.finish(self._session)

    def abort(self) -> None:
        manifest = self._manifest or self._read_manifest()
        if manifest is not None:
            # The names contain the transaction. Without a `committing`, nothing was moved.
            self._remove([target for _source, target in manifest.moves])
        self._files.remove(self._record.staging)

    def to_record(self) -> dict[str, Any]:
        return self._record.model_dump(mode="json")

    def _make_manifest(self) -> CommitManifest:
        staged_rows, tracks = self._staged_rows, self._record.tracks_partitions
        if staged_rows is None or self._writes_nothing:
            return CommitManifest(moves=[], new_partitions=[], old_files=[], emptied_partitions=[])
        names = self._staged_files.list_files(self._record.staging)
        folders = {name.rpartition("/")[0] for name in names}
        if not folders and staged_rows.is_one_partition:
            # Spark and Hive keep, or add, the partition of a statement without rows.
            folders = {staged_rows.static_folder}
        # Only now: a statement that held the write lock before may have dropped partitions.
        places = self._list_places(staged_rows, folders)
        moves = []
        for name in names:
            folder, _, file = name.rpartition("/")
            moves.append((name, _join(places.get(folder, folder), f"{self._file_prefix}{file}")))
        replaces_all = self._record.mode == "overwrite"
        emptied = [path for path in places if path not in folders] if replaces_all else []
        return CommitManifest(
            moves=moves,
            new_partitions=sorted(folders - places.keys()) if tracks else [],
            old_files=self._find_replaced(staged_rows, places, folders),
            emptied_partitions=emptied if staged_rows.drops_emptied else [],
        )

    def _list_places(self, staged_rows: StagedRows, folders: set[str]) -> dict[str, str]:
        """Return the directory of each partition in the catalog that the statement changes.

        Directories are relative to the table's. Raises CatalogError if one is outside of it.

        Args:
            folders: Paths of the partitions with new rows. An overwrite also changes others.
        """
        record = self._record
        if not record.tracks_partitions:
            return {}
        if record.mode == "overwrite":
            partitions = self._table.list_partitions(staged_rows.static)
        else:
            partitions = self._table.find_partitions(folders, staged_rows.static)
        places = _relative_places(partitions, record.location)
        if places is None:
            raise CatalogError(
                f"A partition of table {record.target.sql_name} was moved out of the table's"
                " directory while the statement ran. Run it again."
            )
        return places

    def _partition_exists(self, staged_rows: StagedRows) -> bool:
        if self._record.tracks_partitions:
            return bool(self._list_places(staged_rows, {staged_rows.static_folder}))
        return bool(self._list_below(staged_rows.static_folder))

    def _find_replaced(
        self, staged_rows: StagedRows, places: dict[str, str], folders: set[str]
    ) -> list[str]:
        """Return the files that the write replaces.

        This includes files of partitions that the catalog does not list, for example because a
        partition of an external table was dropped: the new partition would show their rows.

        Args:
            places: See `_list_places`.
            folders: Paths of the partitions with new rows.
        """
        mode = self._record.mode
        if mode == "append":
            return []
        if mode == "overwrite":
            below = staged_rows.static_folder
            prefix = f"{below}/" if below else ""
            others = [place for place in places.values() if not f"{place}/".startswith(prefix)]
            roots = [below, *others]
        else:
            roots = sorted({places.get(folder, folder) for folder in folders})
        return [file for root in roots for file in self._list_below(root)]

    def _list_below(self, folder: str) -> list[str]:
        """Return the files that readers see below a folder of the table."""
        names = self._staged_files.list_files(_join(self._record.location, folder))
        return [_join(folder, name) for name in names]

    def _remove(self, files: list[str]) -> None:
        location = self._record.location
        self._staged_files.remove([f"{location}/{file}" for file in files], root=location)

    @property
    def _file_prefix(self) -> str:
        """Beginning of the names of the files that this transaction publishes."""
        return f"{self._record.transaction.removeprefix('tx_')}-"

    def _check_moved(self) -> None:
        """Raise CatalogError if the table has no file of this transaction, which has files."""
        if self._record.has_files and not any(map(self._is_own, self._list_below(""))):
            raise CatalogError(
                f"The staged rows of table {self._record.target.sql_name} are missing. The table"
                " was dropped, or another program has removed them. Run the statement again."
            )

    def _is_own(self, file: str) -> bool:
        return file.rpartition("/")[2].startswith(self._file_prefix)

    def _check_target(self) -> None:
        """Raise CatalogError if the table is not the one that the write began with."""
        state = self._table.read_state()
        name = self._record.target.sql_name
        if state is None:
            raise CatalogError(f"Table {name} was dropped while the statement ran.")
        if state.fingerprint != self._record.fingerprint:
            raise CatalogError(
                f"Table {name} was altered or replaced while the statement ran. Run it again."
            )

    def _read_manifest(self) -> CommitManifest | None:
        place = f"{self._record.staging}/{_MANIFEST}"
        text = self._staged_files.read(place)
        if text is None:
            return None
        invalid = CatalogError(
            f"The manifest {place} of transaction {self._record.transaction} is not valid."
            " Nothing was changed. Remove its directory by hand."
        )
        try:
            manifest = CommitManifest.model_validate_json(text)
        except ValidationError as error:
            raise invalid from error
        # An abort removes the targets: they must be files of this transaction.
        if not all(self._is_own(target) for _source, target in manifest.moves):
            raise invalid
        return manifest


def create_staged_write(
    session: SparkSession, path: TablePath, write: WriteDefinition
) -> StagedWrite | None:
    """Return a write that is ready to begin.

    Return None if the table has partitions outside of its directory, or if Spark will refuse the
    statement. Raises CatalogError if the table does not exist any more.
    """
    files = HadoopFiles(session)
    table = WrittenTable(session, path, files)
    state = table.read_state()
    if state is None:
        raise CatalogError(f"Table {path.sql_name} was dropped while the statement was planned.")
    staged_rows = describe_rows(session, write.plan)
    if staged_rows is None:
        return None
    record = WriteRecord(
        transaction=write.transaction,
        target=path,
        mode=staged_rows.mode,
        location=state.location,
        staging=_staging(state.location, write.staging_name),
        tracks_partitions=state.tracks_partitions,
        fingerprint=state.fingerprint,
    )
    if state.tracks_partitions:
        partitions = table.list_partitions(staged_rows.static)
        if _relative_places(partitions, state.location) is None:
            return None
    return StagedWrite(session, record, files, staged_rows)


def restore_staged_write(
    session: SparkSession, journalled: JournalledTable, catalog: str
) -> StagedWrite:
    """Rebuild the write of another driver. Raises CatalogError if its record is not trusted."""
    claimed = WriteRecord.model_validate(journalled.record)
    target = journalled.check_target(claimed.target, catalog)
    files = HadoopFiles(session)
    state = WrittenTable(session, target, files).read_state()
    # Without the table, only files of this transaction are touched.
    location = claimed.location if state is None else state.location
    record = claimed.model_copy(
        update={
            "transaction": journalled.transaction,
            "target": target,
            "location": location,
            "staging": _staging(location, journalled.staging_name),
        }
    )
    return StagedWrite(session, record, files)


def _staging(location: str, staging_name: str) -> str:
    # Readers skip names that begin with a dot.
    return f"{location}/.{staging_name}"


def _relative_places(places: dict[str, str], location: str) -> dict[str, str] | None:
    """Return places relative to a location, or None if one is not below it."""
    if any(not place.startswith(f"{location}/") for place in places.values()):
        return None
    return {path: place.removeprefix(f"{location}/") for path, place in places.items()}


def _join(location: str, path: str) -> str:
    return f"{location}/{path}" if location and path else location or path
