"""Every lifecycle as data. No other code decides which state may follow which.

docs/explanation/lifecycles.md draws them. The store makes each change of state as one
compare-and-set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True)
class Lifecycle(Generic[S]):
    """States of an entity: the initial state, and the states that may follow each state."""

    name: str
    initial: S
    transitions: Mapping[S, frozenset[S]]

    @property
    def entity(self) -> str:
        """Name of the entity in events."""
        return self.name.replace(" ", "_")

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
    "statement",
    _ST.WAITING,
    {
        # A statement that a node executes goes from waiting to success or failed in one step.
        _ST.WAITING: frozenset({_ST.LAUNCHED, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT, _ST.CANCELLED}),
        # Back to waiting: the driver was lost and the statement is safe to retry.
        _ST.LAUNCHED: frozenset(
            {_ST.RUNNING, _ST.WAITING, _ST.CANCELLING, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT}
        ),
        _ST.RUNNING: frozenset({_ST.WAITING, _ST.CANCELLING, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT}),
        # The actual outcome wins: work published before the cancel arrived is a success.
        _ST.CANCELLING: frozenset({_ST.CANCELLED, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT}),
        _ST.SUCCESS: frozenset(),
        _ST.FAILED: frozenset(),
        _ST.TIMEOUT: frozenset(),
        _ST.CANCELLED: frozenset(),
    },
    executing=frozenset({_ST.LAUNCHED, _ST.RUNNING}),
)

SESSION = SessionLifecycle(
    "session",
    _SE.NOT_STARTED,
    {
        _SE.NOT_STARTED: frozenset({_SE.STARTING, _SE.CLOSING, _SE.FAILED}),
        _SE.STARTING: frozenset({_SE.RUNNING, _SE.CLOSING, _SE.FAILED}),
        _SE.RUNNING: frozenset({_SE.RECOVERING, _SE.CLOSING, _SE.DEAD, _SE.FAILED}),
        _SE.RECOVERING: frozenset({_SE.RUNNING, _SE.CLOSING, _SE.FAILED}),
        _SE.CLOSING: frozenset({_SE.DEAD}),
        _SE.DEAD: frozenset(),
        _SE.FAILED: frozenset(),
    },
    launching=frozenset({_SE.STARTING, _SE.RECOVERING}),
    assignable=(_SE.RUNNING, _SE.STARTING, _SE.NOT_STARTED),
    before_driver=frozenset({_SE.NOT_STARTED, _SE.STARTING}),
)

TRANSACTION: Lifecycle[TransactionState] = Lifecycle(
    "transaction",
    _TX.PREPARED,
    {
        _TX.PREPARED: frozenset({_TX.BEGUN, _TX.ABORTING}),
        _TX.BEGUN: frozenset({_TX.COMMITTING, _TX.ABORTING}),
        # Aborted only if the catalog refused to publish, for example because the table exists.
        _TX.COMMITTING: frozenset({_TX.COMMITTED, _TX.ABORTING}),
        _TX.ABORTING: frozenset({_TX.ABORTED}),
        _TX.COMMITTED: frozenset(),
        _TX.ABORTED: frozenset(),
    },
)

STREAM = StreamLifecycle(
    "stream",
    _SQ.STARTING,
    {
        # A query can also end before its first report: its start has failed, or a user stops it.
        _SQ.STARTING: frozenset({_SQ.RUNNING, _SQ.BACKING_OFF, _SQ.FAILED, _SQ.STOPPING}),
        # Stopped: its sources have ended. Starting: its driver was lost.
        _SQ.RUNNING: frozenset(
            {_SQ.STOPPED, _SQ.BACKING_OFF, _SQ.STARTING, _SQ.STOPPING, _SQ.FAILED}
        ),
        _SQ.BACKING_OFF: frozenset({_SQ.STARTING, _SQ.STOPPING, _SQ.FAILED}),
        _SQ.STOPPING: frozenset({_SQ.STOPPED, _SQ.PAUSED}),
        _SQ.PAUSED: frozenset({_SQ.STARTING, _SQ.STOPPED}),
        _SQ.STOPPED: frozenset(),
        _SQ.FAILED: frozenset(),
    },
    started=frozenset({_SQ.STARTING, _SQ.RUNNING, _SQ.BACKING_OFF}),
)

_MV = MaterializedViewState

MATERIALIZED_VIEW: Lifecycle[MaterializedViewState] = Lifecycle(
    "materialized view",
    _MV.CREATING,
    {
        _MV.CREATING: frozenset({_MV.ACTIVE, _MV.FAILED}),
        # Active again: a refresh has committed the next generation.
        _MV.ACTIVE: frozenset({_MV.ACTIVE, _MV.DROPPED}),
        _MV.DROPPED: frozenset(),
        _MV.FAILED: frozenset(),
    },
)

CATALOG_INTENT: Lifecycle[IntentState] = Lifecycle(
    "catalog intent",
    IntentState.PENDING,
    {
        IntentState.PENDING: frozenset({IntentState.CLAIMED}),
        # Back to pending: the driver has reported an error. Claimed again: it was lost.
        IntentState.CLAIMED: frozenset(
            {IntentState.CLAIMED, IntentState.PENDING, IntentState.DONE, IntentState.FAILED}
        ),
        IntentState.DONE: frozenset(),
        IntentState.FAILED: frozenset(),
    },
)

_JO = JobState

JOB: Lifecycle[JobState] = Lifecycle(
    "job",
    _JO.DEPLOYING,
    {
        _JO.DEPLOYING: frozenset({_JO.RUNNING, _JO.STOPPED, _JO.FAILED}),
        # Stopped: its sources have ended. Failed: one of its queries has.
        _JO.RUNNING: frozenset({_JO.DEPLOYING, _JO.STOPPING, _JO.STOPPED, _JO.FAILED}),
        _JO.STOPPING: frozenset({_JO.STOPPED, _JO.FAILED, _JO.DELETED}),
        _JO.STOPPED: frozenset({_JO.DEPLOYING, _JO.STOPPING}),
        _JO.FAILED: frozenset({_JO.DEPLOYING, _JO.STOPPING}),
        _JO.DELETED: frozenset(),
    },
)

_CH = ChangeStep

CHANGE: Lifecycle[ChangeStep] = Lifecycle(
    "job change",
    _CH.PLANNED,
    {
        # Stopped: no query of the job runs.
        # Undoing: a step has failed again and again.
        _CH.PLANNED: frozenset({_CH.STOP_WANTED, _CH.STOPPED, _CH.UNDOING}),
        _CH.STOP_WANTED: frozenset({_CH.STOPPED, _CH.UNDOING}),
        _CH.STOPPED: frozenset({_CH.VERIFIED, _CH.UNDOING}),
        # Applied: the job was to stop.
        _CH.VERIFIED: frozenset({_CH.RESTORED, _CH.UNDOING, _CH.PROVEN, _CH.APPLIED}),
        _CH.RESTORED: frozenset({_CH.STARTED, _CH.UNDOING}),
        _CH.STARTED: frozenset({_CH.PROVEN, _CH.UNDOING}),
        _CH.PROVEN: frozenset({_CH.APPLIED, _CH.FAILED}),
        _CH.UNDOING: frozenset({_CH.FAILED}),
        _CH.APPLIED: frozenset(),
        _CH.FAILED: frozenset(),
    },
)

_DP = DeploymentState

DEPLOYMENT: Lifecycle[DeploymentState] = Lifecycle(
    "deployment",
    _DP.CHECKING,
    {
        _DP.CHECKING: frozenset({_DP.PLANNED, _DP.REJECTED}),
        _DP.PLANNED: frozenset({_DP.APPLYING, _DP.EXPIRED}),
        _DP.APPLYING: frozenset({_DP.APPLIED, _DP.FAILED}),
        _DP.REJECTED: frozenset(),
        _DP.APPLIED: frozenset(),
        _DP.FAILED: frozenset(),
        _DP.EXPIRED: frozenset(),
    },
)

OPERATION: Lifecycle[OperationState] = Lifecycle(
    "operation",
    OperationState.PENDING,
    {
        OperationState.PENDING: frozenset({OperationState.CLAIMED}),
        # Claimed again: the node was lost.
        OperationState.CLAIMED: frozenset({OperationState.CLAIMED, OperationState.DONE}),
        OperationState.DONE: frozenset(),
    },
)

SAVEPOINT: Lifecycle[SavepointState] = Lifecycle(
    "savepoint",
    SavepointState.COPYING,
    {
        SavepointState.COPYING: frozenset({SavepointState.VERIFIED, SavepointState.BROKEN}),
        SavepointState.VERIFIED: frozenset({SavepointState.BROKEN, SavepointState.PRUNED}),
        SavepointState.BROKEN: frozenset({SavepointState.PRUNED}),
        SavepointState.PRUNED: frozenset(),
    },
)

NODE: Lifecycle[NodeState] = Lifecycle(
    "node",
    NodeState.UP,
    {
        NodeState.UP: frozenset({NodeState.DRAINING, NodeState.GONE}),
        NodeState.DRAINING: frozenset({NodeState.GONE}),
        NodeState.GONE: frozenset(),
    },
)
