"""The result of a successful statement, and how its stored form is laid out.

The stored form (docs/results.md) is Arrow IPC with positional column names `_0`, `_1`, …, the Spark
schema as JSON beside it, and counts on their own: it holds what column names and formats cannot.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class Disposition(StrEnum):
    AUTO = "auto"  # inline when small, stored otherwise
    INLINE = "inline"  # in the store's row, as one Arrow IPC stream
    STORED = "stored"  # in the results location, as Arrow IPC parts


class ResultRequest(BaseModel):
    """What a caller asks of the result of one statement."""

    model_config = ConfigDict(frozen=True)

    disposition: Disposition = Disposition.AUTO
    row_limit: int | None = None
    """Largest number of rows; the result says `truncated` when rows are cut off."""
    byte_limit: int | None = None
    """Largest number of bytes of record batches; the result says `truncated` likewise."""
    location: str | None = None
    """A results location for this result alone; default: that of the node."""


class ResultPart(BaseModel):
    """One Arrow IPC file in the results location. Its batches are read by index."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Path below the result's location."""
    rows: list[int]
    """Rows of each record batch, in order. What a batch holds beyond them a limit has cut off."""
    bytes: list[int]
    """Bytes of each record batch, in order."""


class Manifest(BaseModel):
    """What a stored result consists of; written last, as `manifest.json`."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    spark_schema: dict[str, Any]
    row_count: int
    byte_count: int
    truncated: bool
    chunk_limit: int
    """Bytes of record batches in one chunk; chunks are counted out by it, whatever the parts."""
    parts: list[ResultPart]
    """In the order of the rows."""


class ResultReport(BaseModel):
    """What a driver reports of a result it has written."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    disposition: Disposition
    """`inline` or `stored`."""
    spark_schema: dict[str, Any]
    row_count: int
    byte_count: int
    truncated: bool
    chunks: int
    location: str | None = None
    """Where the manifest is; stored results only."""
    data: bytes | None = None
    """An Arrow IPC stream; inline results only."""


class ResultInfo(BaseModel):
    """What the store knows of a result."""

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
    """Its rows are no longer kept."""
