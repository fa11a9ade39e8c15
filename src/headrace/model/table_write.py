"""A write to a table of files, for which a driver requests the write lock of the table."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headrace.model.text import check_text

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
