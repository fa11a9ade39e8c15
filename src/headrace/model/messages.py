"""The link: what a driver and a node say to each other over HTTP.

The driver asks, the node answers; every call carries the token of one session and epoch, and a
node answers 409 `lease_lost` once that epoch has been superseded: the driver then stops.
Paths are below `/driver/v1/sessions/{session}/{epoch}/`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.pending_hook_call import PendingHookCall
from headrace.model.progress import Progress
from headrace.model.result import Disposition, ResultReport
from headrace.model.snapshot import Snapshot
from headrace.model.statement import Parameter
from headrace.model.transaction import Staged

LINK_PREFIX = "/driver/v1/sessions"


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Bootstrap(Message):
    """The 0600 file that a launcher leaves for a driver.

    The driver deletes the token as soon as it has read it, before its JVM starts.
    """

    session_id: str
    epoch: int
    token: str | None
    nodes: list[str]
    """Node addresses; a node that comes back on another port rewrites them."""
    conf: dict[str, str]
    """Spark configuration the driver starts with."""
    catalog: str | None = None
    database: str | None = None
    parallelism: int = 1
    """How many queries may run at once."""
    warm: bool = False
    """Whether nobody waits for it yet: it has the time to warm up."""
    results: str
    """The results location."""
    inline_limit: int
    chunk_limit: int
    lease_seconds: float
    renew_seconds: float
    orphan_seconds: float
    """How long the driver lives without reaching any node."""
    hold: str | None = None
    """A file to hold a shared lock on for as long as the driver lives."""


class Restore(Message):
    """`restore`: Spark is up. What is to be rebuilt in it, before it says hello?"""


class Restored(Message):
    """The answer to `restore`."""

    snapshot: Snapshot | None
    """None for a session in which nothing was changed yet."""
    pending_hook_calls: list[PendingHookCall] = []
    """Statements that ended when the driver before this one was lost: for hooks to hear of."""


class Hello(Message):
    """`hello`: Spark is up and the session rebuilt in it. The session becomes `running`."""

    pid: int
    spark_version: str
    application_id: str
    ui_url: str | None
    keeps_tables: bool
    """Whether its catalog outlives the driver."""
    lost: list[str] = []
    """What could not be rebuilt, in words."""
    told: list[str] = []
    """Of which `untold` statements the hooks have heard."""


class Poll(Message):
    """`poll`: a long poll for work, kept open at all times."""

    wait_seconds: float = Field(ge=0, le=60)
    in_flight: list[str] = []
    """Statements received and not yet acknowledged as ended."""
    cancels_received: list[str] = []
    """Of those, the ones whose cancel the driver has heard of."""


class JournalEntry(Message):
    """A table transaction as the journal has it."""

    id: str
    state: TransactionState
    staged: Staged


class Assignment(Message):
    """A statement that the node has claimed for this driver."""

    statement_id: str
    text: str
    parameters: list[Parameter]
    conf: dict[str, str]
    disposition: Disposition
    row_limit: int | None
    byte_limit: int | None
    location: str | None
    is_query: bool
    """Whether it can change nothing."""
    attempt: int
    transaction: JournalEntry | None = None
    """What an earlier driver has left of it, to be finished or removed first."""


class Orders(Message):
    """The answer to `poll`."""

    assignment: Assignment | None = None
    cancel: list[str] = []
    """Statements in hand whose cancel is asked for and not yet heard of."""
    close: bool = False
    """End the session: nothing more will come."""


class Started(Message):
    """`started`: execution has begun. Not sent for a statement that has ended meanwhile."""

    statement_id: str


class Transact(Message):
    """`transact`: a table transaction comes to its next state. Repeating it is harmless."""

    id: str
    statement_id: str
    state: TransactionState
    staged: Staged | None = None
    """Where it is not as the journal has it: at first, and when all rows are written."""
    published: bool = False
    """Whether the catalog has published it already: a cancel comes too late."""


class Transacted(Message):
    """The answer to `transact`."""

    applied: bool
    """False for a statement that is being cancelled."""
    busy: bool = False
    """Whether another statement publishes a table of that name just now."""


class Recover(Message):
    """`recover`: the driver has these catalogs. Which of their transactions has nobody?"""

    identities: list[str]


class OrphanedTransaction(JournalEntry):
    """A table transaction that nobody drives, and whose statement has ended."""

    statement_id: str


class Recovered(Message):
    """The answer to `recover`: they are the driver's now, to be finished or removed."""

    left: list[OrphanedTransaction]


class Ended(Message):
    """`ended`: how a statement ended. Repeating it is harmless."""

    statement_id: str
    state: StatementState
    failure: Failure | None = None
    result: ResultReport | None = None
    detail: dict[str, Any] = {}
    committed: str | None = None
    """The transaction whose table is published."""
    atomic: bool | None = None
    note: str | None = None
    """What there is to know of a success."""
    snapshot: Snapshot | None = None
    """The state of the session after it, where that may have changed."""
    ran_seconds: float | None = Field(default=None, ge=0)
    """How long it ran: it is not told apart that a brief statement began."""

    @model_validator(mode="after")
    def _agrees(self) -> Ended:
        """A success has a result and nothing else has: a success is always readable."""
        if (self.state is StatementState.SUCCESS) != (self.result is not None):
            raise ValueError(f"a statement that ends as {self.state} and its result do not agree")
        return self


class Acknowledged(Message):
    """The answer to `hello`, `started`, `advanced`, `ended` and `goodbye`."""

    applied: bool
    """False when the state had moved on, e.g. a repeated report."""


class Advanced(Message):
    """`advanced`: how far statements are, once a second at most."""

    progress: dict[str, Progress]
    """By statement id."""


class Renew(Message):
    """`renew`: the driver lives. One for all its statements."""

    streams: int = Field(default=0, ge=0)
    """Streaming queries that run in it."""


class Renewed(Acknowledged):
    """The answer to `renew`."""

    nodes: list[str] = []
    """Where nodes are now."""


class Goodbye(Message):
    """`goodbye`: the driver is about to exit."""

    failure: Failure | None = None
    """Why, when it is no orderly close."""
