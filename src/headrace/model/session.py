"""A session: the durable context in which statements run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.request_fields import SessionFields
from headrace.model.text import MAX_REPORT, Descriptions


class SessionKind(StrEnum):
    """What the driver of a session does. A statement has the kind of the session that it needs."""

    INTERACTIVE = "interactive"  # runs statements until it is closed
    BATCH = "batch"  # runs one statement, or those of one file, then its driver quits
    STREAMING = "streaming"  # stays for as long as a streaming query runs in it
    LOCAL = "local"  # a node does the work; there is no driver


DRIVER_ACTOR = "driver:"
"""Begin of the names of drivers in events."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def is_session_name(text: str) -> bool:
    """Return whether a session can have this name."""
    return _NAME.fullmatch(text) is not None


class SessionSpec(BaseModel):
    """Configuration with which the driver of a session is started."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    profile: str = "default"
    """Name of the profile in the settings: backend and Spark configuration."""
    conf: dict[str, str] = {}
    """Spark configuration of this session; overrides that of the profile."""
    catalog: str | None = None
    """Current catalog at the start; default: Spark's."""
    database: str | None = None
    """Current database at the start; default: that of the catalog."""
    jars: list[str] = []
    """Jars that Spark adds at the start (paths or URIs)."""
    files: list[str] = []
    """Files that Spark distributes to the executors (paths or URIs)."""
    py_files: list[str] = []
    """Python files and zips for the PYTHONPATH of driver and executors (paths or URIs)."""

    @property
    def needs_own_driver(self) -> bool:
        """Whether no warm driver fits: warm drivers are started with the profile alone."""
        return self != SessionSpec(profile=self.profile)

    @property
    def configures_driver(self) -> bool:
        """Whether the driver process itself differs from one with the profile alone.

        Current catalog and database are not part of the process: SQL can change both.
        """
        process = self.model_copy(update={"catalog": None, "database": None})
        return process.needs_own_driver


@dataclass(frozen=True, slots=True)
class DriverLease:
    """The driver of one epoch of one session: the fence of every write that a driver makes."""

    session_id: str
    epoch: int

    @property
    def actor(self) -> str:
        """Name of the driver in events."""
        return f"{DRIVER_ACTOR}{self.session_id}:{self.epoch}"


@dataclass(frozen=True, slots=True)
class FlightAccess:
    """How a driver serves the results that it holds, and how they are opened."""

    host: str
    """IP address, chosen by the operator of the node."""
    secret: str = field(repr=False)
    """Key of the tokens that open results."""


class FencedDriver(BaseModel):
    """A lost driver whose epoch is superseded and whose process may still exist.

    Nothing else happens to its session until the backend confirms that the process is gone.
    """

    model_config = ConfigDict(frozen=True)

    epoch: int
    """Epoch with which the driver was launched."""
    handle: dict[str, Any] | None
    """Handle of the process; None if the driver was lost before its handle was stored. Launchers
    then find the process by its name."""
    reason: str
    """Why the driver counts as lost, for logs and messages."""
    start_timed_out: bool = False
    """Whether the driver used up the start timeout. Another driver would not start either."""
    streams: int = 0
    """Streaming queries that ran in the driver."""
    failure: Failure | None = None
    """Why the session must fail; None: another driver can continue."""
    is_exiting: bool = False
    """Whether the driver has said goodbye because its session closes. It gets time to exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession(SessionFields):
    """A session to be inserted into the store."""

    id: str
    owner: str
    kind: SessionKind = SessionKind.INTERACTIVE
    name: str | None = None
    spec: SessionSpec = SessionSpec()  # noqa: RUF009 - frozen
    parallelism: int | None = None
    """Largest number of its queries that run at once; in a pool session, of all its statements.
    None: as the settings say, and 1 for a session that runs nothing yet."""
    pool: bool = False
    """Whether it runs the statements of its owner that name no session."""
    warm: bool = False
    """Whether the session only keeps a driver warm and belongs to no user yet."""
    for_jobs: bool = False
    """Whether a deployment has opened the session, which may also replace it."""
    actor: str | None = None
    """User who opens it; None: its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(SessionFields):
    """A session as the store holds it."""

    id: str
    number: int
    """Serial number, never reused."""
    owner: str
    kind: SessionKind
    name: str | None
    state: SessionState
    spec: SessionSpec
    parallelism: int
    pool: bool
    """Whether it runs the statements of its owner that name no session, each in a Spark session of
    its own."""
    warm: bool
    for_jobs: bool
    streams: int
    """Streaming queries that run in its driver."""
    epoch: int
    """Raised by every launch and every takeover; the fence of every write that a driver makes."""
    starts: int
    """Number of drivers started for the session since a driver last reported `hello`."""
    fenced_driver: FencedDriver | None
    lost: list[str]
    """Descriptions of the state that the last recovery could not restore."""
    launched_by: str | None
    """Id of the node that claimed the launch."""
    host: dict[str, Any] | None
    """Identity of the host of that node. A driver process without a handle can be found there."""
    handle: dict[str, Any] | None
    """Data with which the launcher finds the driver process."""
    driver: dict[str, Any] | None
    """Report of the driver in `hello`: pid, Spark version, application id, UI address."""
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    last_used_at: datetime | None
    """Last submit to the session, or last lease renewal while a statement was live."""
    last_update_time: datetime | None
    """Last launch, `hello` or lease renewal of the driver."""
    lease_until: datetime | None
    """End of the driver's lease; None while no driver runs or starts."""
    failure: Failure | None
    active: int = 0
    """Statements of the session that have not ended."""


MAX_PARTS = 10_000
"""Largest number of settings, of entries of one kind, and of files of one kind."""

# A NUL is allowed: the value of a setting and the text of a view may contain it.
_Text = Annotated[str, Field(max_length=MAX_REPORT)]
_Texts = Annotated[list[_Text], Field(max_length=MAX_PARTS, fail_fast=True)]


class EntryForm(StrEnum):
    """Format of the body of a snapshot entry."""

    SQL = "sql"  # the statement that creates the entry
    FUNCTION = "function"  # Spark's JSON of a SQL function
    JAVA = "java"  # base64 of the Java-serialised object that Spark holds


class SessionView(BaseModel):
    """A temporary view of a session, with all that another session needs to create it again."""

    model_config = ConfigDict(frozen=True)

    name: _Text
    query: _Text
    columns: _Texts = []
    """Names of its columns, if they are not those of the query."""
    catalog: _Text
    namespace: _Texts
    """Catalog and namespace in which its query resolves names."""
    conf: Annotated[dict[_Text, _Text], Field(max_length=MAX_PARTS)] = {}
    """Configuration with which Spark analyses its query."""
    reads: _Texts = []
    """Names of the temporary views that its query reads, streams included."""


class SnapshotEntry(BaseModel):
    """A view, a function or a variable of a session."""

    model_config = ConfigDict(frozen=True)

    name: _Text
    form: EntryForm
    body: _Text
    default: _Text | None = None
    """For a variable: the expression that DEFAULT stands for."""
    view: SessionView | None = None
    """For a temporary view with a query: what a streaming query over the view needs."""


_Entries = Annotated[list[SnapshotEntry], Field(max_length=MAX_PARTS, fail_fast=True)]


class Snapshot(BaseModel):
    """Session state that outlives a driver. The catalog holds tables; cached data is not kept."""

    model_config = ConfigDict(frozen=True)

    conf: Annotated[dict[_Text, _Text], Field(max_length=MAX_PARTS)] = {}
    """Configuration that changed since the driver started."""
    catalog: _Text
    namespace: _Texts
    variables: _Entries = []
    """Session variables by value: a default such as `uuid()` would give another value."""
    functions: _Entries = []
    views: _Entries = []
    global_views: _Entries = []
    jars: _Texts = []
    files: _Texts = []
    archives: _Texts = []
    unsaved: Descriptions = []
    """Descriptions of state that could not be captured, and that is lost with the driver."""
