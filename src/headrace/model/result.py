"""The result of a successful statement, and the layout of its stored form.

The stored form is Arrow IPC with positional column names `_0`, `_1`, …, with the Spark schema as
JSON and the row counts beside it (docs/guides/results.md). It can hold duplicate column names and
types that Arrow and Parquet lack.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class Disposition(StrEnum):
    """Where the rows of a result are kept."""

    AUTO = "auto"  # inline when small, stored otherwise
    INLINE = "inline"  # in the row of the store, as one Arrow IPC stream
    STORED = "stored"  # in the results location, as Arrow IPC parts


class ResultRequest(BaseModel):
    """Where the result of one statement is kept, and its limits."""

    model_config = ConfigDict(frozen=True)

    disposition: Disposition = Disposition.AUTO
    row_limit: int | None = None
    """Largest number of rows; the result says `truncated` when rows are cut off."""
    byte_limit: int | None = None
    """Largest number of bytes of record batches; the result says `truncated` likewise."""
    location: str | None = None
    """A results location for this result alone; default: the location of the node."""


class ResultPart(BaseModel):
    """One Arrow IPC file of a stored result. Readers fetch its batches by index."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Path below the location of the result."""
    rows: list[int]
    """Rows of each record batch, in order. A limit has cut off the rows beyond them."""
    bytes: list[int]
    """Bytes of each record batch, in order."""


class Manifest(BaseModel):
    """The parts of a stored result; written last, as `manifest.json`."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    spark_schema: dict[str, Any]
    row_count: int
    byte_count: int
    truncated: bool
    chunk_limit: int
    """Largest number of bytes of record batches in one chunk. Chunks do not follow the parts."""
    parts: list[ResultPart]
    """The parts, in the order of their rows."""


class ResultReport(BaseModel):
    """A result that a driver has written, as the driver reports it."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    disposition: Disposition
    """`inline` or `stored`."""
    spark_schema: dict[str, Any]
    row_count: int
    byte_count: int
    truncated: bool
    chunks: int
    location: str | None = None
    """Location of the manifest; stored results only."""
    data: bytes | None = None
    """An Arrow IPC stream; inline results only."""


class ResultInfo(BaseModel):
    """A result as the store holds it, without its rows."""

    model_config = ConfigDict(frozen=True)

    disposition: Disposition
    spark_schema: dict[str, Any]
    row_count: int
    byte_count: int
    truncated: bool
    chunks: int
    location: str | None
    expires_at: datetime
    gone: bool = False
    """Whether the rows have been deleted."""
