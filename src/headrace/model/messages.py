"""The messages of the link between drivers and nodes (HTTP and JSON).

The driver calls and the node answers. Each call carries the token of one session and epoch. A node
answers 409 `lease_lost` when a takeover has superseded the epoch, and the driver then stops. Paths
are below `/driver/v1/sessions/{session}/{epoch}/`; the last segment names the call.

A reader ignores fields that it does not know, so that node and driver can differ by one version. A
message of a driver is an unverified claim: every number, text and list in it has a bound.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from headrace.config.conf_policy import ConfRule
from headrace.model.connection import AssignedConnection, ConnectionState
from headrace.model.execution import StatementExecution
from headrace.model.expectation import Expectation, ExpectationCounts
from headrace.model.failure import Failure
from headrace.model.job_messages import JobOutcome, JobTask
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.lineage import Lineage
from headrace.model.materialized_view import (
    CatalogIntent,
    IntentId,
    MaterializedViewId,
    NameScope,
    SwitchedView,
    ViewRows,
    ViewToRefresh,
)
from headrace.model.result import ResultReport, ResultRequest
from headrace.model.session import Snapshot
from headrace.model.statement import Parameter, PendingHookCall, Progress
from headrace.model.stream_query import (
    DesiredQueries,
    DesiredQuery,
    QueryId,
    QueryReport,
    QuerySpec,
)
from headrace.model.system_tables import SystemTable
from headrace.model.text import (
    Count,
    Descriptions,
    IndexedText,
    MessageText,
    Name,
    SmallCount,
    StatementId,
    TransactionId,
    check_text,
)
from headrace.model.transaction import OrphanedWrite, Staged, TableWrite

LINK_PREFIX = "/driver/v1/sessions"
LINK_VERSION = 2
"""Version of the messages. A node accepts drivers of this version, of the one before, and newer."""
WITH_CONNECTIONS = 2
"""First version whose nodes and drivers run the statements of connections."""

_REPORTED_ENDS = {StatementState.SUCCESS, StatementState.FAILED, StatementState.CANCELLED}
_MAX_IN_FLIGHT = 1000
MAX_HELD = 1000
"""Largest number of results that a driver holds."""
MAX_CATALOGS = 1000
_MAX_RAN_SECONDS = 1e9
_MAX_PREPARED = 1024 * 1024
"""Bytes of the record of a table whose rows are not all written yet. A complete record can name
every file of the table, and is limited by the size of a report."""

CatalogIdentity = Annotated[str, Field(max_length=64 * 1024), AfterValidator(check_text)]
"""Identity of a catalog. If it is too long for a journal entry, nothing is journalled for it."""

InFlight = Annotated[list[StatementId], Field(max_length=_MAX_IN_FLIGHT, fail_fast=True)]
"""Ids of statements that a driver runs, or whose results it holds."""


def _check_ui_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("is not an HTTP URL")
    return url


class Message(BaseModel):
    """Base of all messages. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Bootstrap(Message):
    """Data that a driver needs to start: a file of mode 0600, or an object that is read once.

    The driver removes the secrets as soon as it has read the bootstrap, before its JVM starts.
    """

    session_id: str
    epoch: int
    token: str | None
    nodes: list[str]
    """Node addresses. A node that restarts on another port rewrites them."""
    ca: str | None = None
    """CAs of the nodes' certificates, in PEM; None: those of the driver's host."""
    conf: dict[str, str]
    """Complete Spark configuration of the application."""
    catalog: str | None = None
    database: str | None = None
    warm: bool = False
    """Whether no user waits for the driver yet, so that it has time to warm up."""
    results: str
    """Results location of the node."""
    inline_limit: int
    """Largest result, in bytes, that the disposition `auto` keeps in the store."""
    chunk_limit: int
    """Largest number of bytes of record batches in one chunk."""
    lease_seconds: float
    """Duration of the driver's lease after a renewal."""
    renew_seconds: float
    """Time between two renewals."""
    orphan_seconds: float
    """Longest time that the driver lives while no node renews its lease."""
    jvm_timeout_seconds: float = 60.0
    """Time without an answer after which the driver's JVM counts as lost."""
    close_grace_seconds: float = 30.0
    """Time after which a node kills the driver of a closed session."""
    flight_host: str | None = None
    """Address on which the driver serves held results. None: it holds no results."""
    flight_secret: str | None = Field(default=None, repr=False)
    """Key of the tokens that open held results. The driver removes it like the token."""
    memory_limit: int = 0
    """Largest number of bytes of the results that the driver holds."""
    hold: str | None = None
    """File on which the driver holds a shared lock for as long as it lives."""
    wanted: str | None = None
    """File that the driver creates when it may use the catalog, so that the metastore starts."""
    conf_rules: list[ConfRule] = []
    """Rules on the keys that statements may SET."""
    secrets: dict[str, str] | None = Field(default=None, repr=False)
    """Values of the secrets in `conf`, by name. The driver removes them, and `conf`, like the
    token, and reports references instead of them."""
    redaction_pattern: str | None = None
    """Further names of options whose values are secrets."""


class Restore(Message):
    """`restore`: Spark is up; ask for the state to rebuild before `hello`."""


class Restored(Message):
    """Answer to `restore`."""

    snapshot: Snapshot | None
    """State to restore; None if no statement has changed the session yet."""
    pending_hook_calls: list[PendingHookCall] = []
    """Statements that ended with the previous driver; the hooks must still be called for them."""
    has_orphans: bool = True
    """Whether there are orphaned transactions, of any catalog."""


class Hello(Message):
    """`hello`: Spark is up and the session restored. The session becomes `running`."""

    pid: SmallCount
    spark_version: Name
    application_id: Name
    ui_url: Annotated[Name, AfterValidator(_check_ui_url)] | None
    keeps_tables: bool
    """Whether the catalog outlives the driver."""
    lost: Descriptions = []
    """Descriptions of the state that could not be restored."""
    hook_calls_made: Annotated[list[StatementId], Field(max_length=10_000, fail_fast=True)] = []
    """Statement ids of the pending hook calls that were made."""
    link_version: SmallCount = 1
    """Version of the messages that the driver sends."""


class Poll(Message):
    """`poll`: a long poll for orders. A driver keeps one poll open at all times."""

    wait_seconds: float = Field(ge=0, le=60)
    in_flight: InFlight = []
    """Statements that the driver received and whose end the node has not acknowledged."""
    cancels_received: InFlight = []
    """Statements of `in_flight` that the driver is cancelling."""
    streams_generation: SmallCount | None = None
    """Generation of the desired queries that the driver has; None: it cannot supervise queries."""
    announces_effects: bool = False
    """Whether the driver sends `started` with `has_effects` before a statement can have effects."""
    separates_queries: bool = False
    """Whether the driver runs queries at once in separate Spark sessions, in every session. Drivers
    of 0.1.0 do it only in sessions that started them with a `parallelism`."""
    opens_connections: bool = False
    """Whether the driver runs the statements of a connection in its Spark session. Drivers of an
    older version would run them in another one."""
    checks_rows: bool = False
    """Whether the driver checks the expectations of a statement. One of an older version would
    write the rows without."""


class JournalEntry(Message):
    """A table transaction as the journal holds it."""

    id: str
    state: TransactionState
    staged: Staged
    staged_epoch: int
    """Epoch of the driver that prepared the transaction. Names of staged objects contain it."""
    view: SwitchedView | None = None
    """The view that the statement of the transaction writes; None if it writes none."""


class Assignment(Message):
    """A statement that the node claimed for this driver."""

    statement_id: str
    text: str
    parameters: list[Parameter]
    conf: dict[str, str]
    result_request: ResultRequest
    result_location: str | None = None
    """Location of a stored result of this attempt. None only if a node is one version older."""
    is_query: bool
    """Whether the statement is a pure query, which cannot change anything."""
    attempt: int
    transaction: JournalEntry | None = None
    """Transaction of an earlier attempt, to be finished or rolled back first."""
    command: str | None = None
    """First words of a statement of Headrace's own; None for a statement of Spark's."""
    query: DesiredQuery | None = None
    """The query that a SAVE STREAM starts."""
    definitions: list[str] = []
    """The statements that define the streams that the statement reads, in order."""
    view: ViewToRefresh | None = None
    """The view that a REFRESH MATERIALIZED VIEW refreshes."""
    task: JobTask | None = None
    """A task of a deployment. The text of such a statement only describes the task."""
    isolated: bool = False
    """Whether the statement runs in a Spark session of its own, which nothing outlives."""
    alone: bool = False
    """Whether no other statement runs beside it, because its session runs one at a time."""
    ordinal: int | None = None
    """Position in the session, from 0. None only if a node is one version older."""
    connection: AssignedConnection | None = None
    """The connection in whose Spark session the statement runs."""
    expectations: list[Expectation] = []
    """Conditions on the rows that the statement writes."""


class Orders(Message):
    """Answer to `poll`."""

    assignment: Assignment | None = None
    cancel: list[str] = []
    """Statements in flight to cancel, except those in `cancels_received`."""
    close: bool = False
    """End the session; no more work will come."""
    streams: DesiredQueries | None = None
    """The desired queries, if their generation differs from that in the poll."""


class Started(Message):
    """`started`: execution has begun. Not sent for a query that has already ended."""

    statement_id: StatementId
    has_effects: bool = False
    """Whether the statement may now change something that no transaction can roll back."""
    ran_seconds: float | None = Field(default=None, ge=0, le=_MAX_RAN_SECONDS)
    """Time since the start of the execution, on the driver's clock. The node derives the start."""


class Transact(Message):
    """`transact`: move a table transaction to its next state. Repeating the call is harmless."""

    id: TransactionId
    statement_id: StatementId
    state: TransactionState
    staged: Staged | None = None
    """The record, if it differs from the journal: in `prepared`, and when all rows are written."""
    published: bool = False
    """Whether the catalog has already published the table, so that a cancel comes too late."""

    @model_validator(mode="after")
    def _check_record(self) -> Transact:
        """Raise ValueError if the record is larger than its state needs."""
        if self.staged is not None and self.state is not TransactionState.COMMITTING:
            size = len(json.dumps(self.staged.record))
            if size > _MAX_PREPARED:
                raise ValueError(f"the record is larger than {_MAX_PREPARED} bytes")
        return self


class Transacted(Message):
    """Answer to `transact`."""

    applied: bool
    """False for a statement that is being cancelled."""
    busy: bool = False
    """Whether another statement is publishing a table with this name, or at this location."""


class FailedRecovery(Message):
    """Why a driver could not resolve an orphaned transaction."""

    id: TransactionId
    message: MessageText


class Recover(Message):
    """`recover`: take over orphaned transactions of the catalogs that the driver has."""

    identities: Annotated[list[CatalogIdentity], Field(max_length=MAX_CATALOGS, fail_fast=True)]
    failed: Annotated[list[FailedRecovery], Field(max_length=1000, fail_fast=True)] = []
    """Transactions that this driver has taken over and could not resolve."""


class OrphanedTransaction(JournalEntry):
    """A table transaction whose statement has ended and on which no driver works."""

    statement_id: str


class Recovered(Message):
    """Answer to `recover`: the transactions that this driver must now finish or roll back."""

    orphaned: list[OrphanedTransaction]


class ReadSystemTables(Message):
    """`read_system_tables`: return the rows of system tables for the owner of the session."""

    tables: Annotated[list[SystemTable], Field(min_length=1, max_length=len(SystemTable))]


class FoundRows(Message):
    """Answer to `read_system_tables`."""

    tables: dict[SystemTable, str]
    """Rows by table: a stream of Arrow IPC, in base64."""


class BeginWrite(Message):
    """`begin_write`: request the write lock of a statement that writes to tables of files.

    Repeating the call asks whether the lock is granted.
    """

    statement_id: StatementId
    identity: IndexedText
    """Identity of the catalog."""
    writes: Annotated[list[TableWrite], Field(min_length=1, max_length=1000, fail_fast=True)]


class AnnounceWrites(Message):
    """`announce_writes`: a streaming query will write to tables of files, without a write lock.

    What the driver stages in them is removed when it is gone.
    """

    query_id: QueryId
    identity: IndexedText
    """Identity of the catalog."""
    writes: Annotated[list[TableWrite], Field(min_length=1, max_length=1000, fail_fast=True)]


class WriteLock(Message):
    """Answer to `begin_write`: the write lock of the statement."""

    granted: bool
    waits_for: str | None = None
    """Statement that writes to the table now, or is to write before this one. None with
    `granted: false`: the statement is being cancelled."""


class ClearStaging(Message):
    """`clear_staging`: list the orphaned writes to tables of the driver's catalogs."""

    identities: Annotated[list[CatalogIdentity], Field(max_length=MAX_CATALOGS, fail_fast=True)]
    cleared: Annotated[list[Count], Field(max_length=1000, fail_fast=True)] = []
    """Numbers of writes whose staging directories do not exist any more."""
    after: Count = 0
    """Only writes with a larger number are listed."""


class OrphanedWrites(Message):
    """Answer to `clear_staging`: the orphaned writes that remain, oldest first."""

    writes: list[OrphanedWrite]


class FindStreams(Message):
    """`find_streams`: return the streams of the session's owner that have these names."""

    names: Annotated[list[IndexedText], Field(min_length=1, max_length=1000, fail_fast=True)]


class FoundStreams(Message):
    """Answer to `find_streams`."""

    definitions: list[str] = []
    """The statements that define the streams, each after those it reads."""
    failure: Failure | None = None
    """Why they cannot be read, for example because there are too many."""


class OpenConnection(Message):
    """`open_connection`: return the state of the connection in which a statement runs."""

    statement_id: StatementId
    """A statement in flight of the driver."""


class OpenedConnection(Message):
    """Answer to `open_connection`."""

    state: ConnectionState | None = None
    """None: the connection does not exist any more, or its state is forgotten."""


class FindSecrets(Message):
    """`find_secrets`: return the values of secrets that a statement or a query needs now."""

    names: Annotated[list[Name], Field(min_length=1, max_length=100, fail_fast=True)]


class FoundSecrets(Message):
    """Answer to `find_secrets`."""

    values: dict[str, str] = Field(default={}, repr=False)
    """Values by name."""
    failure: Failure | None = None
    """Why one of them cannot be used. There are no values then."""
    is_permanent: bool = True
    """Whether the failure is not one of the provider, which may answer later."""


class Ended(Message):
    """`ended`: how a statement ended. Repeating the call is harmless."""

    statement_id: StatementId
    state: StatementState
    """`success`, `failed` or `cancelled`."""
    failure: Failure | None = None
    result: ResultReport | None = None
    committed: TransactionId | None = None
    """Id of the transaction whose table is published."""
    atomic: bool | None = None
    wrote: bool = False
    """Whether the statement had requested a write lock with `begin_write`. The lock is released."""
    note: MessageText | None = None
    """A remark on a success."""
    rows_written: Count | None = None
    """Number of rows that an INSERT or a CTAS has written, if Spark counts them."""
    progress: Progress | None = None
    """Progress after the last task. None if the statement started no job."""
    snapshot: Snapshot | None = None
    """State of the session afterwards, if the statement may have changed it."""
    scope: NameScope | None = None
    """Catalog and namespace in which a SAVE STREAM has started its query."""
    task_outcome: JobOutcome | None = None
    """What the task of a deployment has found out or done."""
    expectation_counts: ExpectationCounts | None = None
    """What was counted for the expectations of the assignment; None also if it is not known."""
    ran_seconds: float | None = Field(default=None, ge=0, le=_MAX_RAN_SECONDS)
    """Time since the start of the execution. For a brief statement, this replaces `started`."""
    lineage: Lineage = []
    """Tables that a successful statement has read and written."""

    @property
    def known_counts(self) -> ExpectationCounts | None:
        """What was counted for expectations; None if it contradicts the number of rows written."""
        counts = self.expectation_counts
        is_consistent = counts is not None and self.rows_written in {None, counts.rows_written}
        return counts if is_consistent else None

    @model_validator(mode="after")
    def _check_result(self) -> Ended:
        """Raise ValueError unless exactly the successes have a result, so that all are readable."""
        if self.state not in _REPORTED_ENDS:
            raise ValueError(f"a driver cannot report the state {self.state}")
        if (self.state is StatementState.SUCCESS) != (self.result is not None):
            raise ValueError(f"the state {self.state} and the result do not agree")
        counts = self.expectation_counts
        if counts is not None and (self.state is StatementState.SUCCESS) != counts.is_published:
            raise ValueError(f"the state {self.state} and the rows written do not agree")
        return self


class Acknowledged(Message):
    """Answer to `hello`, `started`, `advanced`, `ended`, `executed` and `goodbye`."""

    applied: bool
    """False if the state had already changed, for example for a repeated report."""


class Advanced(Message):
    """`advanced`: progress of the running statements, sent at most once a second."""

    progress: Annotated[dict[StatementId, Progress], Field(max_length=_MAX_IN_FLIGHT)]
    """Progress by statement id."""


MAX_EXECUTIONS = 20
"""Largest number of executions in one report."""
MAX_EXECUTIONS_BODY = 8 * 1024 * 1024
"""Bytes of the largest report of executions. A driver sends fewer executions at once if need be."""


class Executed(Message):
    """`executed`: plans and stages of statements that have ended, sent soon after their ends.

    A node one version older does not know the call.
    """

    executions: Annotated[dict[StatementId, StatementExecution], Field(max_length=MAX_EXECUTIONS)]
    """Executions by statement id."""


class Renew(Message):
    """`renew`: the driver is alive. One call renews the lease for all its statements."""

    streams: SmallCount = 0
    """Number of streaming queries that run in the driver."""
    queries: Annotated[list[QueryReport], Field(max_length=_MAX_IN_FLIGHT, fail_fast=True)] = []
    """The supervised queries. The driver renews at once when the state of one changes."""
    held: InFlight = []
    """Statements whose results the driver holds, from the acknowledgement of their ends on."""


class Renewed(Acknowledged):
    """Answer to `renew`."""

    nodes: list[str] = []
    """Addresses of the live nodes."""
    has_intents: bool = False
    """Whether intents of the session's owner are due, in any catalog."""
    release: list[str] = []
    """Statements of `held` whose results are gone: the driver releases their rows."""


class Goodbye(Message):
    """`goodbye`: the driver is about to exit."""

    failure: Failure | None = None
    """Why the driver exits. None if it exits in an orderly way."""


MARKER_FORMAT = 1


class CheckpointMarker(BaseModel):
    """The content of the file in a checkpoint that names the query that works on it.

    A reader ignores fields that it does not know, and refuses a higher `format`.
    """

    model_config = ConfigDict(frozen=True)

    format: int = MARKER_FORMAT
    query: QueryId
    session: Annotated[str, StringConstraints(pattern=r"^se_[0-9a-f]{32}$")]
    epoch: Annotated[int, Field(ge=0)]


class FindMarked(Message):
    """`find_marked`: ask whether the query that has marked a checkpoint is still live."""

    query_id: QueryId
    """The query of the driver that is to work on the checkpoint."""
    marked_id: QueryId
    """The query that the marker names."""


class MarkedQuery(Message):
    """Answer to `find_marked`. A query that the store does not know is not live."""

    is_live: bool
    name: Name | None = None
    """Qualified name, if the query belongs to the owner of the session and is live."""


_MAX_REPORTED = 100
"""Largest number of intents whose outcome one message reports."""


class NewView(Message):
    """The materialized view that a CREATE MATERIALIZED VIEW creates, as its driver resolves it."""

    identity: IndexedText
    """Identity of the catalog."""
    rows: ViewRows


class BeginGeneration(Message):
    """`begin_generation`: begin the next generation of the view that a statement writes."""

    statement_id: StatementId
    new: NewView | None = None
    """The view, if the statement creates it."""


class Generation(Message):
    """Answer to `begin_generation`."""

    view: MaterializedViewId | None = None
    """None: the generation was not begun."""
    number: int = 0
    busy: bool = False
    """Whether the table of an earlier generation may still be published: ask again."""
    failure: Failure | None = None
    """Why the statement fails. None without a view: the statement is being cancelled."""


class IntentError(Message):
    """Why an intent could not be carried out."""

    id: IntentId
    message: MessageText
    attempt: SmallCount | None = None
    """Number of the claim. None: a driver of the version before does not name it."""


class CarryOut(Message):
    """`carry_out`: report the outcome of intents, and claim others of the driver's catalogs."""

    identities: Annotated[list[CatalogIdentity], Field(max_length=MAX_CATALOGS, fail_fast=True)]
    clears_sinks: bool = False
    """Whether the driver also removes the staging tables of ended queries."""
    done: Annotated[list[IntentId], Field(max_length=_MAX_REPORTED, fail_fast=True)] = []
    failed: Annotated[list[IntentError], Field(max_length=_MAX_REPORTED, fail_fast=True)] = []


class SinkIntent(Message):
    """Remove the staging tables that the lost drivers of an ended query have left in its sink."""

    id: IntentId
    query_id: str
    spec: QuerySpec
    attempt: SmallCount
    """See `CatalogIntent`."""


class Intents(Message):
    """Answer to `carry_out`: the intents that the driver must carry out now."""

    intents: list[CatalogIntent]
    sinks: list[SinkIntent] = []
