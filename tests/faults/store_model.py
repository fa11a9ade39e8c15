"""The rules of DESIGN 2 in plain Python: what the store must do, said without a database.

Each method is one call of the store: it changes the model and returns what the store has to return.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.model.lifecycle import IN_FLIGHT, SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import CancelReason

MAX_ATTEMPTS = 2
MAX_STARTS = 3
_LAUNCHABLE = {SessionState.NOT_STARTED, SessionState.STARTING, SessionState.RECOVERING}


class Lease(Enum):
    """Who answers for a session."""

    NONE = "nobody"
    HELD = "somebody"
    OVER = "somebody who is late"


@dataclass(eq=False)
class ModelStatement:
    """What is known of one statement."""

    id: str
    is_query: bool
    local: bool
    state: StatementState = STATEMENT.initial
    epoch: int | None = None
    attempts: int = 0
    reason: CancelReason | None = None
    forced: bool = False
    has_result: bool = False

    def __repr__(self) -> str:
        return f"{self.id[-6:]}:{self.state}"

    @property
    def live(self) -> bool:
        return self.state in STATEMENT.live

    def claimed(self, epoch: int) -> None:
        self.state, self.epoch = StatementState.LAUNCHED, epoch
        self.attempts += 1

    def told(self, target: StatementState) -> bool:
        """A change that nobody's epoch guards."""
        if not STATEMENT.allows(self.state, target):
            return False
        self.state = target
        self.has_result = target is StatementState.SUCCESS
        return True

    def cancelled(self, reason: CancelReason, *, force: bool) -> StatementState:
        """The state after somebody has asked for its end."""
        if self.state is StatementState.CANCELLING:
            self.forced = self.forced or force
        elif self.state is StatementState.WAITING:
            self.state, self.reason, self.forced = StatementState.CANCELLED, reason, force
        elif self.state in IN_FLIGHT:
            self.state, self.reason, self.forced = StatementState.CANCELLING, reason, force
        return self.state

    def ended_with_session(self) -> None:
        """Its session has ended: it fails, or is cancelled where that was asked for."""
        asked = self.state is StatementState.CANCELLING
        self.state = self._as_cancelled() if asked else StatementState.FAILED

    def settled(self) -> None:
        """Its driver is gone for certain: only what can change nothing is tried again."""
        if self.state is StatementState.CANCELLING:
            self.state = self._as_cancelled()
        elif self.is_query and self.attempts < MAX_ATTEMPTS:
            self.state, self.epoch = StatementState.WAITING, None
        else:
            self.state = StatementState.FAILED

    def _as_cancelled(self) -> StatementState:
        timed = self.reason is CancelReason.TIMEOUT
        return StatementState.TIMEOUT if timed else StatementState.CANCELLED


@dataclass(eq=False)
class ModelSession:
    """What is known of one session and of all its statements, in order."""

    id: str
    kind: SessionKind
    parallelism: int
    state: SessionState = SESSION.initial
    epoch: int = 0
    starts: int = 0
    lease: Lease = Lease.NONE
    fenced_driver: int | None = None
    handled: bool = False
    launched: list[int] = field(default_factory=list)
    """Epochs of its drivers, of which some may be long lost and not know it."""
    statements: list[ModelStatement] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.id[-6:]}:{self.state}:{self.epoch}:{self.lease.name}"

    @property
    def live(self) -> bool:
        return self.state in SESSION.live

    @property
    def takes(self) -> bool:
        """Whether a statement may be submitted to it."""
        spent = self.kind is SessionKind.BATCH and bool(self.statements)
        return self.live and self.state is not SessionState.CLOSING and not spent

    @property
    def launchable(self) -> bool:
        if self.state is SessionState.RECOVERING and not self.in_states(STATEMENT.live):
            return False
        return self._free()

    def _free(self) -> bool:
        return self.state in _LAUNCHABLE and self.lease is Lease.NONE and self.fenced_driver is None

    def in_states(self, states: frozenset[StatementState]) -> list[ModelStatement]:
        return [one for one in self.statements if one.state in states]

    def claim_launch(self) -> int | None:
        if not self._free():
            return None
        if self.state is SessionState.NOT_STARTED:
            self.state = SessionState.STARTING
        self.epoch += 1
        self.starts += 1
        self.lease, self.handled = Lease.HELD, False
        self.launched.append(self.epoch)
        return self.epoch

    def set_handle(self, epoch: int) -> bool:
        if epoch != self.epoch or not self.live:
            return False
        self.handled = True
        return True

    def hello(self, epoch: int) -> bool:
        if epoch != self.epoch or not SESSION.allows(self.state, SessionState.RUNNING):
            return False
        self.state, self.starts, self.lease = SessionState.RUNNING, 0, Lease.HELD
        return True

    def renew(self, epoch: int) -> SessionState | None:
        if epoch != self.epoch or not self.live:
            return None
        self.lease = Lease.HELD
        return self.state

    def claim_next(self, epoch: int) -> ModelStatement | None:
        """The oldest that waits: alone, or as a query beside queries."""
        waiting = self.in_states(frozenset({StatementState.WAITING}))
        if epoch != self.epoch or self.state is not SessionState.RUNNING or not waiting:
            return None
        found, busy = waiting[0], self.in_states(IN_FLIGHT)
        beside = found.is_query and all(one.is_query for one in busy)
        if found.local or (busy and not (beside and len(busy) < self.parallelism)):
            return None
        found.claimed(epoch)
        return found

    def report(self, statement: ModelStatement, epoch: int, target: StatementState) -> bool:
        """A driver tells of a statement: only what it has, and only while the session is its."""
        mine = statement in self.statements and statement.epoch == epoch == self.epoch
        return mine and statement.told(target)

    def condemn(self, epoch: int, *, if_overdue: bool) -> int | None:
        """Fence a driver off: from here on it can change nothing."""
        driven = self.live and self.lease is not Lease.NONE and self.fenced_driver is None
        if epoch != self.epoch or not driven or (if_overdue and self.lease is not Lease.OVER):
            return None
        if self.state is SessionState.RUNNING:
            self.state = SessionState.RECOVERING
        self.fenced_driver, self.handled = epoch, False
        self.epoch += 1
        self.lease = Lease.HELD
        return self.epoch

    def retake(self, epoch: int) -> bool:
        stale = epoch == self.epoch and self.fenced_driver is not None and self.lease is Lease.OVER
        if stale:
            self.lease = Lease.HELD
        return stale

    def prolong(self, epoch: int) -> None:
        if epoch == self.epoch and self.fenced_driver is None and self.lease is not Lease.NONE:
            self.lease = Lease.HELD

    def release(self, epoch: int) -> bool:
        """The lost driver is gone; nobody answers for the session any more."""
        if epoch != self.epoch or self.fenced_driver is None:
            return False
        self.fenced_driver, self.lease = None, Lease.NONE
        return True

    def settle(self) -> None:
        for one in self.in_states(IN_FLIGHT):
            one.settled()

    def close(self) -> None:
        self.state = SessionState.CLOSING
        for one in self.in_states(STATEMENT.live):
            one.cancelled(CancelReason.CLOSED, force=False)
        if self.lease is Lease.NONE:
            self.bury()

    def bury(self, epoch: int | None = None) -> bool:
        return self._end(SessionState.DEAD, epoch)

    def fail(self, epoch: int | None = None) -> bool:
        """It cannot go on; one that was closing is dead."""
        closing = self.state is SessionState.CLOSING
        return self._end(SessionState.DEAD if closing else SessionState.FAILED, epoch)

    def _end(self, target: SessionState, epoch: int | None) -> bool:
        if epoch not in {None, self.epoch} or not SESSION.allows(self.state, target):
            return False
        self.state, self.lease, self.fenced_driver = target, Lease.NONE, None
        for one in self.in_states(STATEMENT.live):
            one.ended_with_session()
        return True
