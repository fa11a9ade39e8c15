"""A table that its catalog publishes itself, at the end of the write, all at once."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from headrace.driver.ctas.base import PROPERTY, Destination, TablePath, TwoPhaseTable
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.preconditions import already_exists
from headrace.driver.ctas.v2_catalog import V2Catalog
from headrace.errors import CatalogError, StatementFailed


class NativeCommitRecord(BaseModel):
    """What the journal keeps of it."""

    transaction: str
    target: TablePath
    replaces: bool
    place: str | None = None
    """A URI: everything is written there, and nothing but this transaction's is ever there."""
    while_writing: dict[str, str] = {}
    """Table properties that lead there."""
    afterwards: dict[str, str | None] = {}
    """What they are once it is published; None: not set."""


class NativeCommitTable(TwoPhaseTable):
    """Drives one of them; see TwoPhaseTable."""

    commits_natively = True

    def __init__(self, record: NativeCommitRecord, plugin: V2Catalog, files: HadoopFiles) -> None:
        self._is = record
        self._plugin = plugin
        self._files = files
        self.destination = Destination(
            path=record.target,
            properties={PROPERTY: record.transaction, **record.while_writing},
            replaces=record.replaces,
        )

    def begin(self) -> None:
        """The statement's own write makes all there is."""

    def published(self) -> bool:
        found = self._plugin.properties(self._is.target)
        return found.get(PROPERTY) == self._is.transaction

    def commit(self) -> None:
        if not self.published():
            # It was: somebody has replaced or dropped it since, as anybody may.
            return
        if self._is.afterwards:
            self._plugin.set_properties(self._is.target, self._is.afterwards)

    def refusal(self, error: Exception) -> StatementFailed | None:
        # Iceberg's catalogs have different words for it, and no condition.
        late = "already exists" in str(error) and not self._is.replaces
        there = self._plugin.kind_of(self._is.target) if late else None
        return None if there is None else already_exists(self._is.target, there)

    def abort(self) -> None:
        if self.published():
            raise CatalogError(f"{self._is.target.quoted()} is published: nothing is removed.")
        if self._is.place is not None:
            self._files.remove(self._is.place)
            self._files.remove_if_empty(self._is.place.rpartition("/")[0])

    def record(self) -> dict[str, Any]:
        return self._is.model_dump(mode="json")
