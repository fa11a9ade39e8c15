"""A session: the durable context in which statements run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState


class SessionKind(StrEnum):
    """Of a session, what its driver does; of a statement, which session it needs."""

    INTERACTIVE = "interactive"  # one statement after the other, until it is closed
    BATCH = "batch"  # one statement, then its driver quits
    STREAMING = "streaming"  # stays for as long as a streaming query runs in it
    LOCAL = "local"  # a node does the work; no driver


class FencedDriver(BaseModel):
    """A lost driver, fenced off, whose process may still be there.

    Nothing of its session goes on before its backend has confirmed that it is gone.
    """

    model_config = ConfigDict(frozen=True)

    epoch: int
    """The one that it was launched with."""
    handle: dict[str, Any] | None
    """None when it was lost before its handle was kept: it is found by its name."""
    reason: str
    """Why it counts as lost, in words."""
    start_timed_out: bool = False
    """Whether it had all the time there is to start: another one would fare no better."""


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
    parallelism: int = 1
    """How many of its queries run at once, at most."""
    warm: bool = False
    """Nobody's yet: it keeps a driver warm."""


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
    parallelism: int
    warm: bool
    streams: int
    """Streaming queries that run in its driver."""
    epoch: int
    """Raised by every launch and every takeover; the fence of every write a driver makes."""
    starts: int
    """Drivers started for it since one has last said hello."""
    fenced_driver: FencedDriver | None
    lost: list[str]
    """What the driver could not bring back of the session's state when it was rebuilt."""
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
    """None when nobody answers for it: no driver runs or is being started."""
    failure: Failure | None
    active: int = 0
    """Statements of it that have not ended."""
