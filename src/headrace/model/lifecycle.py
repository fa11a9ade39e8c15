"""Every lifecycle as data; nothing else decides what may follow what.

docs/lifecycles.md draws them. A change of state is made in the store as one compare-and-set from
the states that may lead there.
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
    """A named set of states: where a thing begins, and which states may follow which."""

    name: str
    initial: S
    transitions: Mapping[S, frozenset[S]]

    @cached_property
    def terminal(self) -> frozenset[S]:
        """The states that nothing follows."""
        return frozenset(state for state, following in self.transitions.items() if not following)

    @cached_property
    def live(self) -> frozenset[S]:
        """The states that something follows."""
        return frozenset(self.transitions) - self.terminal

    def sources(self, target: S) -> frozenset[S]:
        """The states from which `target` may be reached in one step."""
        return frozenset(
            state for state, following in self.transitions.items() if target in following
        )

    def allows(self, source: S, target: S) -> bool:
        """Whether `target` may follow `source`."""
        return target in self.transitions[source]


class StatementState(StrEnum):
    WAITING = "waiting"  # accepted and durable
    LAUNCHED = "launched"  # claimed by a driver, or by a node when it is local
    RUNNING = "running"
    CANCELLING = "cancelling"  # a cancel is asked for; how it really ends is not known yet
    SUCCESS = "success"  # its result can be read through any node
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class SessionState(StrEnum):
    NOT_STARTED = "not_started"
    STARTING = "starting"  # a node has claimed the launch
    RUNNING = "running"
    RECOVERING = "recovering"  # its driver is lost and being rebuilt
    CLOSING = "closing"
    DEAD = "dead"
    FAILED = "failed"


class NodeState(StrEnum):
    UP = "up"
    DRAINING = "draining"  # takes no new launches
    GONE = "gone"


class TransactionState(StrEnum):
    PREPARED = "prepared"  # journalled; nothing is done yet
    BEGUN = "begun"  # rows are being written where nobody reads them
    COMMITTING = "committing"  # complete, and being published: nothing but the end of it follows
    COMMITTED = "committed"
    ABORTING = "aborting"  # what was staged is being removed
    ABORTED = "aborted"


_ST = StatementState
_SE = SessionState
_TX = TransactionState

STATEMENT: Lifecycle[StatementState] = Lifecycle(
    "statement",
    _ST.WAITING,
    {
        _ST.WAITING: frozenset({_ST.LAUNCHED, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT, _ST.CANCELLED}),
        # Back to waiting: its driver was lost and the statement is safe to run again.
        _ST.LAUNCHED: frozenset(
            {_ST.RUNNING, _ST.WAITING, _ST.CANCELLING, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT}
        ),
        _ST.RUNNING: frozenset({_ST.WAITING, _ST.CANCELLING, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT}),
        # The truth wins: what was published before the cancel arrived is a success.
        _ST.CANCELLING: frozenset({_ST.CANCELLED, _ST.SUCCESS, _ST.FAILED, _ST.TIMEOUT}),
        _ST.SUCCESS: frozenset(),
        _ST.FAILED: frozenset(),
        _ST.TIMEOUT: frozenset(),
        _ST.CANCELLED: frozenset(),
    },
)

IN_FLIGHT = frozenset({_ST.LAUNCHED, _ST.RUNNING, _ST.CANCELLING})
"""The states in which a driver has a statement."""

SESSION: Lifecycle[SessionState] = Lifecycle(
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
)

TRANSACTION: Lifecycle[TransactionState] = Lifecycle(
    "transaction",
    _TX.PREPARED,
    {
        _TX.PREPARED: frozenset({_TX.BEGUN, _TX.ABORTING}),
        _TX.BEGUN: frozenset({_TX.COMMITTING, _TX.ABORTING}),
        # Back only where the catalog has refused to publish, e.g. for another's table.
        _TX.COMMITTING: frozenset({_TX.COMMITTED, _TX.ABORTING}),
        _TX.ABORTING: frozenset({_TX.ABORTED}),
        _TX.COMMITTED: frozenset(),
        _TX.ABORTED: frozenset(),
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
