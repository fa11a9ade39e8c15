"""Connections: Spark sessions of their own in the pool driver of their owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from headrace.model.session import Snapshot

RUN_PROTOCOL = "job"
"""Protocol of the connections of runs of batch jobs."""


class ConnectionSpec(BaseModel):
    """What a client says when it connects."""

    model_config = ConfigDict(frozen=True)

    catalog: str | None = None
    """Current catalog at the start; None: Spark's own."""
    database: str | None = None
    """Current database at the start; None: that of the catalog."""
    conf: dict[str, str] = {}
    """Spark configuration of the connection."""
    variables: dict[str, str] = {}
    """Variables: the text `${name}` in a statement stands for the value."""


class AssignedConnection(BaseModel):
    """The connection of a statement that a driver has claimed."""

    model_config = ConfigDict(frozen=True)

    id: str
    changed_by: str | None = None
    """The statement that has changed its state last; None: none has. A driver whose Spark session
    has the state of another statement asks for that of the store."""


class ConnectionState(BaseModel):
    """A connection as a driver opens it."""

    model_config = ConfigDict(frozen=True)

    id: str
    spec: ConnectionSpec
    snapshot: Snapshot | None = None
    """State after its last statement; None: that of the start."""
    changed_by: str | None = None
    """The statement that has reported the snapshot; None: the state is that of the start."""

    @property
    def is_forgotten(self) -> bool:
        """Whether the store has deleted the snapshot."""
        return self.snapshot is None and self.changed_by is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection as the store holds it."""

    id: str
    owner: str
    protocol: str
    """Front end by which the client has connected, for example `hiveserver2`."""
    spec: ConnectionSpec
    created_at: datetime
    last_used_at: datetime
    ended_at: datetime | None
    changed_by: str | None
    """The statement that has changed its state last; None: none has."""


class Cursor(NamedTuple):
    """The rows that a client has been sent last, whose position the server keeps."""

    start: int
    """Position of the first one."""
    end: int
    """Position behind the last one."""
    sequence: int
    """Number of the client's call; 0: the client does not number its calls."""
