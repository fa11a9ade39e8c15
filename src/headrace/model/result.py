"""The result of a successful statement, and the layout of its stored form.

The stored form is Arrow IPC with positional column names `_0`, `_1`, …, with the Spark schema as
JSON and the row counts beside it (docs/guides/results.md). It can hold duplicate column names and
types that Arrow and Parquet lack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from headrace.model.text import MAX_REPORT, Count, JsonObject, SmallCount

_MAX_PARTS = 1_000_000
"""Largest number of parts of a result, and of batches of a part."""
_TIME_ZONE = re.compile(r"[A-Za-z0-9+][A-Za-z0-9_+:/-]{0,63}|-[0-9:]{1,8}")
_ATTEMPT = re.compile(r"(st_[0-9a-f]{32})-([0-9]{1,9})-[0-9]{1,9}")


def check_time_zone(value: Any) -> str | None:
    """Return the name of a time zone, or None for a value that cannot be a name.

    A result without a zone is shown in UTC, which is better than to refuse its rows.
    """
    return value if isinstance(value, str) and _TIME_ZONE.fullmatch(value) else None


class Disposition(StrEnum):
    """Where the rows of a result are kept."""

    AUTO = "auto"  # inline when small, stored otherwise
    INLINE = "inline"  # in the row of the store, as one Arrow IPC stream
    STORED = "stored"  # in the results location, as Arrow IPC parts
    MEMORY = "memory"  # in the memory of the driver, which serves them by Arrow Flight


class GoneReason(StrEnum):
    """Why the rows of a result are gone."""

    EXPIRED = "expired"  # after `results.retention`
    DRIVER_LOST = "driver_lost"  # with the driver that held them
    SESSION_CLOSED = "session_closed"  # with the session whose driver held them
    SESSION_FAILED = "session_failed"


class ResultRequest(BaseModel):
    """Where the result of one statement is kept, and its limits.

    The disposition `memory` is written as `auto` and `held`. A node that does not know it would
    otherwise read none of the fields, and would lose the limits.
    """

    model_config = ConfigDict(frozen=True)

    disposition: Disposition = Disposition.AUTO
    row_limit: int | None = None
    """Largest number of rows; the result says `truncated` when rows are cut off."""
    byte_limit: int | None = None
    """Largest number of bytes of record batches; the result says `truncated` likewise."""
    location: str | None = None
    """A results location for this result alone; default: the location of the node."""

    @model_validator(mode="before")
    @classmethod
    def _read_held(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("held") is True:
            return {**values, "disposition": Disposition.MEMORY}
        return values

    @model_serializer(mode="wrap")
    def _write_held(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = write(self)
        if self.disposition is Disposition.MEMORY:
            values |= {"disposition": Disposition.AUTO.value, "held": True}
        return values


def has_certain_parts(
    disposition: Disposition, row_limit: int | None, byte_limit: int | None
) -> bool:
    """Return whether the part of a finished task is certainly a part of the result.

    A limit may cut it off, and a driver may hold the rows instead of storing them.
    """
    has_limits = row_limit is not None or byte_limit is not None
    return not has_limits and disposition in {Disposition.AUTO, Disposition.STORED}


def make_location(base: str, statement_id: str, epoch: int, attempt: int) -> str:
    """Return the location of a stored result below `base`.

    Epoch and attempt keep the files of two attempts apart.
    """
    return f"{base.rstrip('/')}/{statement_id}-{epoch}-{attempt}"


def is_location_of(location: str, statement_id: str) -> bool:
    """Return whether `make_location` could have returned this location for the statement."""
    name = location.rpartition("/")[2]
    return re.fullmatch(rf"{re.escape(statement_id)}-\d+-\d+", name) is not None


@dataclass(frozen=True, slots=True)
class ResultAttempt:
    """One attempt of a statement, for which `make_location` names a folder of files."""

    name: str
    statement_id: str
    epoch: int

    @classmethod
    def parse(cls, name: str) -> ResultAttempt | None:
        """Return the attempt with this name, or None if `make_location` gives no such name."""
        match = _ATTEMPT.fullmatch(name)
        return None if match is None else cls(name, match[1], int(match[2]))

    def is_at(self, location: str) -> bool:
        """Return whether a location has the files of this attempt."""
        return location.rpartition("/")[2] == self.name


class ResultPart(BaseModel):
    """One Arrow IPC file of a stored result. Readers fetch its batches by index."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, StringConstraints(pattern=r"^part-[A-Za-z0-9-]{1,100}\.arrow$")]
    """Name of a file directly below the location of the result."""
    rows: Annotated[list[Count], Field(max_length=_MAX_PARTS, fail_fast=True)]
    """Rows of each record batch, in order. A limit has cut off the rows beyond them."""
    bytes: Annotated[list[Count], Field(max_length=_MAX_PARTS, fail_fast=True)]
    """Bytes of each record batch, in order."""

    @model_validator(mode="after")
    def _check_lengths(self) -> ResultPart:
        """Raise ValueError unless every batch has its rows and bytes."""
        if len(self.rows) != len(self.bytes):
            raise ValueError("rows and bytes do not have the same length")
        return self


class Manifest(BaseModel):
    """The parts of a stored result; written last, as `manifest.json`."""

    model_config = ConfigDict(frozen=True)

    version: SmallCount = 1
    spark_schema: dict[str, Any]
    row_count: Count
    byte_count: Count
    truncated: bool
    chunk_limit: Count
    """Largest number of bytes of record batches in one chunk. Chunks do not follow the parts."""
    parts: Annotated[list[ResultPart], Field(max_length=_MAX_PARTS, fail_fast=True)]
    """The parts, in the order of their rows."""


class FinishedParts(BaseModel):
    """Parts of a stored result whose tasks have ended, while other tasks run."""

    model_config = ConfigDict(frozen=True)

    spark_schema: dict[str, Any]
    parts: Annotated[list[ResultPart], Field(max_length=_MAX_PARTS, fail_fast=True)]
    """The parts that follow those of the file before, in the order of their rows."""


class ResultReport(BaseModel):
    """A result that a driver has written, as the driver reports it.

    The node knows the location of a stored result: it chose the location when it assigned the
    statement.
    """

    model_config = ConfigDict(
        frozen=True, allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64"
    )

    disposition: Disposition
    """Any disposition but `auto`."""
    spark_schema: JsonObject
    row_count: Count
    byte_count: Count
    truncated: bool
    chunks: SmallCount
    data: Annotated[bytes, Field(max_length=MAX_REPORT)] | None = None
    """An Arrow IPC stream; inline results only."""
    time_zone: Annotated[
        Annotated[str, Field(max_length=64)] | None, BeforeValidator(check_time_zone)
    ] = None
    """`spark.sql.session.timeZone`, if the result has timestamps."""
    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Port of the driver's Flight server; held results only. The node knows the address."""

    @model_validator(mode="after")
    def _check_data(self) -> ResultReport:
        """Raise ValueError unless exactly the inline results have rows, and the held ones a port.

        Services of the system have ports below 1024; a driver never has one of them.
        """
        if self.disposition is Disposition.AUTO:
            raise ValueError("a driver reports where it has put the rows")
        if (self.disposition is Disposition.INLINE) != (self.data is not None):
            raise ValueError(f"the disposition {self.disposition} and the rows do not agree")
        if (self.disposition is Disposition.MEMORY) != (self.port is not None):
            raise ValueError(f"the disposition {self.disposition} and the port do not agree")
        return self


class ResultHolder(BaseModel):
    """The driver that holds the rows of a result in its memory."""

    model_config = ConfigDict(frozen=True)

    session_id: str
    epoch: int
    endpoint: str
    """`host:port` of its Flight server. The node knows the host; the driver reports the port."""

    @property
    def is_on_loopback(self) -> bool:
        """Whether only processes of the driver's host reach the endpoint."""
        host = self.endpoint.rpartition(":")[0].strip("[]")
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


class ResultInfo(BaseModel):
    """A result as the store holds it, without its rows."""

    model_config = ConfigDict(frozen=True)

    disposition: Disposition | str
    """Another text: a value of a newer node that shares the store."""
    spark_schema: dict[str, Any]
    row_count: int
    byte_count: int
    truncated: bool
    chunks: int
    location: str | None
    expires_at: datetime
    gone: bool = False
    """Whether the rows have been deleted."""
    gone_reason: GoneReason | None = None
    """Why they are gone; None if they are not, or if an older node has deleted them."""
    time_zone: str | None = None
    """Time zone of the session, in which Spark shows timestamps; None: not known."""
    holder: ResultHolder | None = None
    """The driver that holds the rows; exactly the `memory` results have one."""
