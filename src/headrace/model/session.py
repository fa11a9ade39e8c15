"""A session: the durable context in which statements run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState


class SessionKind(StrEnum):
    """Of a session, what its driver does; of a statement, which session it needs."""

    INTERACTIVE = "interactive"  # one statement after the other, until it is closed
    BATCH = "batch"  # one statement, then its driver quits
    STREAMING = "streaming"  # stays for as long as a streaming query runs in it
    LOCAL = "local"  # a node does the work; no driver


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a submit or `POST /sessions` writes."""

    id: str
    owner: str
    kind: SessionKind = SessionKind.INTERACTIVE
    name: str | None = None
    profile: str = "default"
    conf: dict[str, str] = field(default_factory=dict)
    catalog: str | None = None
    database: str | None = None
    jars: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    py_files: list[str] = field(default_factory=list)
    idle_seconds: float | None = None
    """It is closed when it has been idle that long; None: never."""
    ttl_seconds: float | None = None
    """It is closed that long after it was made, busy or not; None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as the store holds it."""

    id: str
    number: int
    """Counts sessions up; never reused."""
    owner: str
    kind: SessionKind
    name: str | None
    state: SessionState
    profile: str
    conf: dict[str, str]
    catalog: str | None
    database: str | None
    jars: list[str]
    files: list[str]
    py_files: list[str]
    idle_seconds: float | None
    ttl_seconds: float | None
    streams: int
    """Streaming queries that run in its driver."""
    epoch: int
    """Raised by every launch; the fence of every write a driver makes."""
    launched_by: str | None
    """The node that claimed the launch."""
    handle: dict[str, Any] | None
    """What the launcher finds the driver by."""
    driver: dict[str, Any] | None
    """What the driver said of itself: pid, Spark version, application id, UI address."""
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    last_used_at: datetime | None
    """When a statement of it was last live, as far as anybody has looked."""
    last_update_time: datetime | None
    lease_until: datetime | None
    failure: Failure | None
    active: int = 0
    """Statements of it that have not ended."""
