"""A table transaction: the journal row of an atomic change of one table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headrace.model.expectation import ExpectationCounts
from headrace.model.lifecycle import TransactionState
from headrace.model.text import IndexedText, JsonObject, Name, check_text

MANAGED_CATALOG_KEY = "spark.headrace.catalog"
"""Spark configuration of a driver that uses the managed catalog: the id of the catalog, which stays
with its data, and the address of its metastore, which can change."""


class Staged(BaseModel):
    """The data with which another driver can finish a two-phase table."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Name
    """Name of the catalog implementation that wrote the record and can read it."""
    catalog: Name
    """Name of the catalog in the session."""
    identity: IndexedText
    """Text that is equal wherever the same catalog is configured, under any name. A driver that has
    a catalog of this identity can finish the transaction."""
    target: IndexedText
    """Name of the table within the catalog, in lower case."""
    location: IndexedText | None = None
    """URI of the LOCATION in which the table's files are published, if there is one."""
    place: IndexedText | None = None
    """Identity of the place of the LOCATION. One transaction at a time publishes in a place."""
    record: JsonObject
    """Record of the catalog implementation."""
    commits_natively: bool = False
    """Whether the catalog makes the table visible at the end of the write, before `committing`."""
    shares_target: bool = False
    """Whether other transactions may publish in the same table at the same time."""
    ignore_if_exists: bool = False
    """Whether the statement has IF NOT EXISTS: a table of another writer is then no error."""
    expectation_counts: ExpectationCounts | None = None
    """What was counted of the staged rows, if the statement has expectations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A table transaction as the store holds it."""

    id: str
    statement_id: str
    session_id: str
    """Session whose driver works on the transaction, or last did."""
    epoch: int
    state: TransactionState
    staged: Staged
    staged_epoch: int
    """Epoch of the driver that prepared the transaction."""
    created_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether the table may already be visible, whatever happens to its statement."""
        writes_visibly = self.staged.commits_natively and self.state is TransactionState.BEGUN
        return writes_visibly or self.state is TransactionState.COMMITTING


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSummary:
    """A table transaction as users see it, without the record of its driver."""

    id: str
    statement_id: str
    session_id: str
    """See `Transaction`."""
    state: TransactionState
    catalog: str
    target: str
    orphaned: bool
    """Whether its statement has ended and no driver works on it."""
    attempts: int = 0
    """Attempts of drivers to resolve it while it was orphaned."""
    retry_at: datetime | None = None
    """Time before which no driver attempts it again."""
    last_error: str | None = None
    """Why the last attempt failed."""
    created_at: datetime
    ended_at: datetime | None


_Path = Annotated[str, Field(max_length=4096), AfterValidator(check_text)]


class TableWrite(BaseModel):
    """One table that a statement writes to."""

    model_config = ConfigDict(frozen=True)

    location: _Path
    """Identity of the place of the table's directory. Two writes can conflict only if these are
    equal."""
    table: _Path | None = None
    """Quoted name of the table within its catalog; None for a directory that is no table."""
    overwrite: bool
    """Whether the statement must have the table to itself, as it may remove files of others."""


class OrphanedWrite(BaseModel):
    """A write of a driver that is gone. Its staging directories may still exist."""

    model_config = ConfigDict(frozen=True)

    number: int
    """Serial number of the write, never reused."""
    writer: str
    """See `writer_name`."""
    table: str | None
    """See `TableWrite`."""


def writer_name(session_id: str, epoch: int) -> str:
    """Return the part of a staging directory's name that identifies the driver that wrote it."""
    return f"{session_id}_{epoch}"
