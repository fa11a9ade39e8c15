"""Every lifecycle as data. No other code decides which state may follow which.

scripts/generate_reference.py draws them in docs/explanation/lifecycles.md. The store makes each
change of state as one compare-and-set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

S = TypeVar("S", bound=StrEnum)


class EntityKind(StrEnum):
    """What an event is about."""

    STATEMENT = "statement"
    SESSION = "session"
    TRANSACTION = "transaction"
    STREAM = "stream"
    DEFINITION = "definition"
    MATERIALIZED_VIEW = "materialized_view"
    CATALOG_INTENT = "catalog_intent"
    JOB = "job"
    JOB_CHANGE = "job_change"
    DEPLOYMENT = "deployment"
    SAVEPOINT = "savepoint"
    RUN = "run"
    OPERATION = "operation"
    NODE = "node"
    USER = "user"
    TOKEN = "token"  # noqa: S105 - a kind of entity


@dataclass(frozen=True)
class Lifecycle(Generic[S]):
    """States of an entity: the initial state, and the states that may follow each state."""

    entity: EntityKind
    initial: S
    beginning: str
    """How an entity comes to its initial state, in a few words."""
    transitions: Mapping[S, Mapping[S, str]]
    """For each state the states that may follow, each with the reason in a few words."""

    @property
    def name(self) -> str:
        """Name of the entity for readers."""
        return self.entity.replace("_", " ")

    @cached_property
    def terminal(self) -> frozenset[S]:
        """States that no state follows."""
        return frozenset(state for state, following in self.transitions.items() if not following)

    @cached_property
    def live(self) -> frozenset[S]:
        """States that another state may follow."""
        return frozenset(self.transitions) - self.terminal

    def allows(self, source: S, target: S) -> bool:
        """Return whether `target` may follow `source`."""
        return target in self.transitions.get(source, ())


class StatementState(StrEnum):
    """States of a statement."""

    WAITING = "waiting"  # accepted and durable
    LAUNCHED = "launched"  # claimed by a driver
    RUNNING = "running"
    CANCELLING = "cancelling"  # cancel requested; the actual outcome is not known yet
    SUCCESS = "success"  # any node can read the result
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class SessionState(StrEnum):
    """States of a session."""

    NOT_STARTED = "not_started"
    STARTING = "starting"  # a node has claimed the launch
    RUNNING = "running"
    RECOVERING = "recovering"  # its driver was lost; the next statement starts a new one
    CLOSING = "closing"
    DEAD = "dead"
    FAILED = "failed"


class TokenState(StrEnum):
    """States of a token. A token that has expired is still live: only the clock decides."""

    LIVE = "live"
    REVOKED = "revoked"


class NodeState(StrEnum):
    """States of a node."""

    UP = "up"
    DRAINING = "draining"  # begins nothing new, and leaves when its work has other owners
    GONE = "gone"  # has ended, or its lease expired ten minutes ago


class TransactionState(StrEnum):
    """States of a table transaction."""

    PREPARED = "prepared"  # journalled; nothing is created yet
    BEGUN = "begun"  # rows are written where no reader sees them
    COMMITTING = "committing"  # all rows are written and the table is being published
    COMMITTED = "committed"
    ABORTING = "aborting"  # staged data is being removed
    ABORTED = "aborted"


class StreamState(StrEnum):
    """States of a streaming query."""

    STARTING = "starting"  # wanted; no driver has reported a run yet
    RUNNING = "running"
    BACKING_OFF = "backing_off"  # failed; the next start has a time
    STOPPING = "stopping"  # a stop or a pause is requested; the driver has not confirmed it
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


class StreamAction(StrEnum):
    """An action on one query."""

    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    RETRY = "retry"


class MaterializedViewState(StrEnum):
    """States of a materialized view."""

    CREATING = "creating"  # its first generation is not committed
    ACTIVE = "active"
    DROPPED = "dropped"
    FAILED = "failed"  # its first generation was never committed


class IntentState(StrEnum):
    """States of a catalog intent."""

    PENDING = "pending"
    CLAIMED = "claimed"  # by a driver, for a limited time
    DONE = "done"
    FAILED = "failed"


class JobState(StrEnum):
    """States of a job."""

    DEPLOYING = "deploying"  # a change of the job is in progress
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DELETED = "deleted"


class RunState(StrEnum):
    """States of a run of a batch job."""

    DUE = "due"  # its logical time has come; it waits for its turn
    RUNNING = "running"  # its statements run, or it waits for the next attempt
    SUCCEEDED = "succeeded"  # all its statements have succeeded
    FAILED = "failed"
    SKIPPED = "skipped"  # no statement was submitted; the reason says why
    CANCELLED = "cancelled"


class ChangeStep(StrEnum):
    """Steps of the change of one job. Each names what is done."""

    PLANNED = "planned"
    STOP_WANTED = "stop_wanted"
    STOPPED = "stopped"  # the queries of the old version have ended
    VERIFIED = "verified"  # the savepoint is copied, and every copy is read back
    RESTORED = "restored"  # the checkpoint of the new run is complete
    STARTED = "started"
    PROVEN = "proven"  # each query has committed a batch, or is healthy
    UNDOING = "undoing"  # the queries of the new version are stopping
    APPLIED = "applied"
    FAILED = "failed"  # the old version continues, if it ran before


class DeploymentState(StrEnum):
    """States of a deployment."""

    CHECKING = "checking"  # drivers analyse the manifests
    PLANNED = "planned"
    REJECTED = "rejected"  # the manifests have errors; nothing can be applied
    APPLYING = "applying"
    APPLIED = "applied"
    FAILED = "failed"  # the change of at least one job has failed
    EXPIRED = "expired"  # the plan was not applied in time


class OperationState(StrEnum):
    """States of an operation."""

    PENDING = "pending"
    CLAIMED = "claimed"  # by a node, which renews its lease
    DONE = "done"


class SavepointState(StrEnum):
    """States of a savepoint."""

    COPYING = "copying"
    VERIFIED = "verified"
    BROKEN = "broken"  # the copy has failed
    PRUNED = "pruned"


@dataclass(frozen=True)
class StatementLifecycle(Lifecycle[StatementState]):
    """The lifecycle of a statement, and what its states mean."""

    executing: frozenset[StatementState]
    """A driver owns the statement, and no cancel is requested."""

    @cached_property
    def in_flight(self) -> frozenset[StatementState]:
        """States in which a driver owns the statement."""
        return self.executing | {StatementState.CANCELLING}

    @cached_property
    def queued(self) -> frozenset[StatementState]:
        """States in which no driver owns the statement yet."""
        return self.live - self.in_flight


@dataclass(frozen=True)
class SessionLifecycle(Lifecycle[SessionState]):
    """The lifecycle of a session, and what its states mean."""

    launching: frozenset[SessionState]
    """A driver is to start, or starts."""
    assignable: tuple[SessionState, ...]
    """States in which a warm session can be assigned, best first."""
    before_driver: frozenset[SessionState]
    """No driver of the session has been ready yet."""

    @cached_property
    def accepting(self) -> frozenset[SessionState]:
        """States in which the session accepts statements."""
        return self.live - {SessionState.CLOSING}

    @cached_property
    def with_driver(self) -> frozenset[SessionState]:
        """States in which the session has a driver, or gets one."""
        return self.accepting - {self.initial}

    @cached_property
    def leased(self) -> frozenset[SessionState]:
        """States in which a driver can hold a lease."""
        return self.live - {self.initial}


@dataclass(frozen=True)
class StreamLifecycle(Lifecycle[StreamState]):
    """The lifecycle of a streaming query, and what its states mean."""

    started: frozenset[StreamState]
    """A driver works on the query, or will."""


_SQ = StreamState
_ST = StatementState
_SE = SessionState
_TX = TransactionState

STATEMENT = StatementLifecycle(
    EntityKind.STATEMENT,
    _ST.WAITING,
    "submitted and durable",
    {
        _ST.WAITING: {
            _ST.LAUNCHED: "claimed by a driver",
            _ST.SUCCESS: "executed by a node",
            _ST.FAILED: "its session failed or was closed",
            _ST.TIMEOUT: "waited too long",
            _ST.CANCELLED: "cancelled before it was claimed",
        },
        _ST.LAUNCHED: {
            _ST.RUNNING: "execution started",
            _ST.WAITING: "its driver was lost, and it is safe to run again",
            _ST.CANCELLING: "a cancel was requested",
            _ST.SUCCESS: "ended before its start was reported",
            _ST.FAILED: "refused before it ran, or its driver was lost",
            _ST.TIMEOUT: "claimed, but out of time",
        },
        _ST.RUNNING: {
            _ST.WAITING: "its driver was lost, and it is safe to run again",
            _ST.CANCELLING: "a cancel was requested",
            _ST.SUCCESS: "any node can read its result",
            _ST.FAILED: "an error, or its driver was lost",
            _ST.TIMEOUT: "ran too long",
        },
        _ST.CANCELLING: {
            _ST.CANCELLED: "stopped by the cancel",
            _ST.SUCCESS: "had ended before the cancel arrived",
            _ST.FAILED: "had failed before the cancel arrived",
            _ST.TIMEOUT: "its time ran out first",
        },
        _ST.SUCCESS: {},
        _ST.FAILED: {},
        _ST.TIMEOUT: {},
        _ST.CANCELLED: {},
    },
    executing=frozenset({_ST.LAUNCHED, _ST.RUNNING}),
)

SESSION = SessionLifecycle(
    EntityKind.SESSION,
    _SE.NOT_STARTED,
    "created, by a request or by a submit",
    {
        _SE.NOT_STARTED: {
            _SE.STARTING: "a node claimed the launch",
            _SE.CLOSING: "closed before its driver started",
            _SE.FAILED: "cannot be launched",
        },
        _SE.STARTING: {
            _SE.RUNNING: "its driver reported for work",
            _SE.CLOSING: "closed while its driver started",
            _SE.FAILED: "its driver did not start, or not in time",
        },
        _SE.RUNNING: {
            _SE.RECOVERING: "its driver was lost",
            _SE.CLOSING: "closed by a user",
            _SE.DEAD: "its driver ended in order",
            _SE.FAILED: "its driver was lost and cannot be replaced",
        },
        _SE.RECOVERING: {
            _SE.RUNNING: "the new driver reported for work",
            _SE.CLOSING: "closed during the recovery",
            _SE.FAILED: "no new driver can be started",
        },
        _SE.CLOSING: {
            _SE.DEAD: "its driver is gone",
        },
        _SE.DEAD: {},
        _SE.FAILED: {},
    },
    launching=frozenset({_SE.STARTING, _SE.RECOVERING}),
    assignable=(_SE.RUNNING, _SE.STARTING, _SE.NOT_STARTED),
    before_driver=frozenset({_SE.NOT_STARTED, _SE.STARTING}),
)

TRANSACTION: Lifecycle[TransactionState] = Lifecycle(
    EntityKind.TRANSACTION,
    _TX.PREPARED,
    "journalled before anything is created",
    {
        _TX.PREPARED: {
            _TX.BEGUN: "rows are written where no reader sees them",
            _TX.ABORTING: "it cannot begin, or its driver was lost",
        },
        _TX.BEGUN: {
            _TX.COMMITTING: "all rows are written, and no cancel has arrived",
            _TX.ABORTING: "failed, cancelled, or its driver was lost",
        },
        _TX.COMMITTING: {
            _TX.COMMITTED: "the table is published",
            _TX.ABORTING: "the catalog refuses to publish it",
        },
        _TX.ABORTING: {
            _TX.ABORTED: "everything staged is removed",
        },
        _TX.COMMITTED: {},
        _TX.ABORTED: {},
    },
)

STREAM = StreamLifecycle(
    EntityKind.STREAM,
    _SQ.STARTING,
    "accepted by SAVE STREAM",
    {
        _SQ.STARTING: {
            _SQ.RUNNING: "Spark runs it",
            _SQ.BACKING_OFF: "a start has failed",
            _SQ.FAILED: "it cannot be started",
            _SQ.STOPPING: "a stop or a pause is requested",
        },
        _SQ.RUNNING: {
            _SQ.STOPPED: "its sources have ended",
            _SQ.BACKING_OFF: "a run has failed",
            _SQ.STARTING: "its driver was lost",
            _SQ.STOPPING: "a stop or a pause is requested",
            _SQ.FAILED: "it failed for good",
        },
        _SQ.BACKING_OFF: {
            _SQ.STARTING: "the backoff has ended, or a user ends it",
            _SQ.STOPPING: "a stop or a pause is requested",
            _SQ.FAILED: "its session has failed",
        },
        _SQ.STOPPING: {
            _SQ.STOPPED: "it has stopped",
            _SQ.PAUSED: "it has stopped for a pause",
        },
        _SQ.PAUSED: {
            _SQ.STARTING: "resumed",
            _SQ.STOPPED: "stopped, or its session has ended",
        },
        _SQ.STOPPED: {},
        _SQ.FAILED: {},
    },
    started=frozenset({_SQ.STARTING, _SQ.RUNNING, _SQ.BACKING_OFF}),
)

_MV = MaterializedViewState

MATERIALIZED_VIEW: Lifecycle[MaterializedViewState] = Lifecycle(
    EntityKind.MATERIALIZED_VIEW,
    _MV.CREATING,
    "its first rows are to be written",
    {
        _MV.CREATING: {
            _MV.ACTIVE: "its first rows are published",
            _MV.FAILED: "its statement has ended without them",
        },
        _MV.ACTIVE: {
            _MV.ACTIVE: "a refresh has published new rows",
            _MV.DROPPED: "a user drops it",
        },
        _MV.DROPPED: {},
        _MV.FAILED: {},
    },
)

CATALOG_INTENT: Lifecycle[IntentState] = Lifecycle(
    EntityKind.CATALOG_INTENT,
    IntentState.PENDING,
    "a table or view is to be removed from a catalog, or staged rows from a sink",
    {
        IntentState.PENDING: {
            IntentState.CLAIMED: "a driver carries it out",
        },
        IntentState.CLAIMED: {
            IntentState.CLAIMED: "that driver was lost, and another one carries it out",
            IntentState.PENDING: "it has failed, and is tried again a minute later",
            IntentState.DONE: "the driver has removed what there was",
            IntentState.FAILED: "the tenth attempt has failed",
        },
        IntentState.DONE: {},
        IntentState.FAILED: {},
    },
)

_JO = JobState

JOB: Lifecycle[JobState] = Lifecycle(
    EntityKind.JOB,
    _JO.DEPLOYING,
    "its first deployment was applied",
    {
        _JO.DEPLOYING: {
            _JO.RUNNING: "its queries run, or the old version continues",
            _JO.STOPPED: "its sources have ended",
            _JO.FAILED: "the new version failed, and no old one ran",
        },
        _JO.RUNNING: {
            _JO.DEPLOYING: "a deployment changes it",
            _JO.STOPPING: "a user stops or deletes it",
            _JO.STOPPED: "its sources have ended",
            _JO.FAILED: "one of its queries failed",
        },
        _JO.STOPPING: {
            _JO.STOPPED: "stopped with a savepoint",
            _JO.FAILED: "it had failed before",
            _JO.DELETED: "its manifest was removed",
        },
        _JO.STOPPED: {
            _JO.DEPLOYING: "deployed or started again",
            _JO.STOPPING: "a user deletes it",
        },
        _JO.FAILED: {
            _JO.DEPLOYING: "deployed or started again",
            _JO.STOPPING: "a user deletes it",
        },
        _JO.DELETED: {},
    },
)

_RU = RunState

RUN: Lifecycle[RunState] = Lifecycle(
    EntityKind.RUN,
    _RU.DUE,
    "its schedule has fired, or a user has asked for it",
    {
        _RU.DUE: {
            _RU.RUNNING: "a node has begun its first attempt",
            _RU.SKIPPED: "its job was stopped or deleted before its turn",
            _RU.CANCELLED: "cancelled before its turn",
        },
        _RU.RUNNING: {
            _RU.SUCCEEDED: "all its statements have succeeded",
            _RU.FAILED: "a statement has failed for good, or the time limit has passed",
            _RU.CANCELLED: "cancelled by a user, or by the next run",
        },
        _RU.SUCCEEDED: {},
        _RU.FAILED: {},
        _RU.SKIPPED: {},
        _RU.CANCELLED: {},
    },
)

_CH = ChangeStep

CHANGE: Lifecycle[ChangeStep] = Lifecycle(
    EntityKind.JOB_CHANGE,
    _CH.PLANNED,
    "applied with its deployment",
    {
        _CH.PLANNED: {
            _CH.STOP_WANTED: "its queries must stop first",
            _CH.STOPPED: "none of its queries runs",
            _CH.UNDOING: "the step has failed again and again",
        },
        _CH.STOP_WANTED: {
            _CH.STOPPED: "its queries have ended",
            _CH.UNDOING: "the step has failed again and again",
        },
        _CH.STOPPED: {
            _CH.VERIFIED: "the savepoint is verified, or none is needed",
            _CH.UNDOING: "no savepoint could be copied",
        },
        _CH.VERIFIED: {
            _CH.RESTORED: "the checkpoint of the new run is complete, or none is needed",
            _CH.UNDOING: "the savepoint could not be restored",
            _CH.PROVEN: "the job is to be deleted",
            _CH.APPLIED: "the job was to stop",
        },
        _CH.RESTORED: {
            _CH.STARTED: "the queries of the new version were started",
            _CH.UNDOING: "the queries could not be started",
        },
        _CH.STARTED: {
            _CH.PROVEN: "each query has committed a batch, or is healthy",
            _CH.UNDOING: "a query of the new version failed",
        },
        _CH.PROVEN: {
            _CH.APPLIED: "the manifest was written",
            _CH.FAILED: "the new version runs, but its manifest could not be written",
        },
        _CH.UNDOING: {
            _CH.FAILED: "the old version continues, if it ran before",
        },
        _CH.APPLIED: {},
        _CH.FAILED: {},
    },
)

_DP = DeploymentState

DEPLOYMENT: Lifecycle[DeploymentState] = Lifecycle(
    EntityKind.DEPLOYMENT,
    _DP.CHECKING,
    "planned by a user",
    {
        _DP.CHECKING: {
            _DP.PLANNED: "drivers have checked the jobs",
            _DP.REJECTED: "the manifests have errors",
        },
        _DP.PLANNED: {
            _DP.APPLYING: "applied by a user",
            _DP.EXPIRED: "not applied in time",
        },
        _DP.APPLYING: {
            _DP.APPLIED: "all its changes are applied",
            _DP.FAILED: "the change of a job failed",
        },
        _DP.REJECTED: {},
        _DP.APPLIED: {},
        _DP.FAILED: {},
        _DP.EXPIRED: {},
    },
)

OPERATION: Lifecycle[OperationState] = Lifecycle(
    EntityKind.OPERATION,
    OperationState.PENDING,
    "written with its plan or change",
    {
        OperationState.PENDING: {
            OperationState.CLAIMED: "claimed by a node",
        },
        OperationState.CLAIMED: {
            OperationState.CLAIMED: "adopted by another node",
            OperationState.DONE: "its last step is made",
        },
        OperationState.DONE: {},
    },
)

SAVEPOINT: Lifecycle[SavepointState] = Lifecycle(
    EntityKind.SAVEPOINT,
    SavepointState.COPYING,
    "a driver copies the checkpoint of a stopped job",
    {
        SavepointState.COPYING: {
            SavepointState.VERIFIED: "every copy was read back",
            SavepointState.BROKEN: "the copy failed, or there was nothing to copy",
        },
        SavepointState.VERIFIED: {
            SavepointState.BROKEN: "a file was missing or altered when it was restored",
            SavepointState.PRUNED: "older than the retention",
        },
        SavepointState.BROKEN: {
            SavepointState.PRUNED: "older than the retention",
        },
        SavepointState.PRUNED: {},
    },
)

NODE: Lifecycle[NodeState] = Lifecycle(
    EntityKind.NODE,
    NodeState.UP,
    "registered in the store",
    {
        NodeState.UP: {
            NodeState.DRAINING: "drained by an operator, or by SIGTERM",
            NodeState.GONE: "it ended, or its lease expired ten minutes ago",
        },
        NodeState.DRAINING: {
            NodeState.GONE: "it has left, or its lease expired ten minutes ago",
        },
        NodeState.GONE: {},
    },
)

TOKEN: Lifecycle[TokenState] = Lifecycle(
    EntityKind.TOKEN,
    TokenState.LIVE,
    "created for a user or a group",
    {
        TokenState.LIVE: {TokenState.REVOKED: "revoked by its owner or an administrator"},
        TokenState.REVOKED: {},
    },
)

LIFECYCLES: Sequence[Lifecycle[Any]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Lifecycle)
)
"""Every lifecycle."""
