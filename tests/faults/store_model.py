"""A model of the store in plain Python: sessions and statements with the rules of DESIGN 2.

Each method stands for one call of the store. It changes the model and returns what the store must
return.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.model.lifecycle import SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import CancelReason

MAX_ATTEMPTS = 2
MAX_STARTS = 3
_LAUNCHABLE = {SessionState.NOT_STARTED, SessionState.STARTING, SessionState.RECOVERING}


class Lease(Enum):
    """The lease of a session."""

    NONE = "none"
    VALID = "valid"
    EXPIRED = "expired"


@dataclass(eq=False)
class ModelStatement:
    """The model of one statement."""

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

    def claim(self, epoch: int) -> None:
        self.state, self.epoch = StatementState.LAUNCHED, epoch
        self.attempts += 1

    def transition(self, target: StatementState) -> bool:
        """Change the state without a fence."""
        if not STATEMENT.allows(self.state, target):
            return False
        self.state = target
        self.has_result = target is StatementState.SUCCESS
        return True

    def request_cancel(self, reason: CancelReason, *, force: bool) -> StatementState:
        """Request a cancel. Return the state after the request."""
        if self.state is StatementState.CANCELLING:
            self.forced = self.forced or force
        elif self.state is StatementState.WAITING:
            self.state, self.reason, self.forced = StatementState.CANCELLED, reason, force
        elif self.state in STATEMENT.in_flight:
            self.state, self.reason, self.forced = StatementState.CANCELLING, reason, force
        return self.state

    def end_with_session(self) -> None:
        """End the statement because its session ends: as cancelled if a cancel was requested."""
        cancelling = self.state is StatementState.CANCELLING
        self.state = self._outcome_of_cancel() if cancelling else StatementState.FAILED

    def resolve_loss(self) -> None:
        """Resolve the statement after its driver is gone: only a query is retried."""
        if self.state is StatementState.CANCELLING:
            self.state = self._outcome_of_cancel()
        elif self.is_query and self.attempts < MAX_ATTEMPTS:
            self.state, self.epoch = StatementState.WAITING, None
        else:
            self.state = StatementState.FAILED

    def _outcome_of_cancel(self) -> StatementState:
        timed = self.reason is CancelReason.TIMEOUT
        return StatementState.TIMEOUT if timed else StatementState.CANCELLED


@dataclass(eq=False)
class ModelSession:
    """The model of one session, with its statements in order."""

    id: str
    kind: SessionKind
    parallelism: int
    state: SessionState = SESSION.initial
    epoch: int = 0
    starts: int = 0
    lease: Lease = Lease.NONE
    fenced_driver: int | None = None
    has_handle: bool = False
    launched: list[int] = field(default_factory=list)
    """Epochs of its drivers. Lost drivers may still run and make calls."""
    statements: list[ModelStatement] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.id[-6:]}:{self.state}:{self.epoch}:{self.lease.name}"

    @property
    def live(self) -> bool:
        return self.state in SESSION.live

    @property
    def accepts_statements(self) -> bool:
        finished = self.kind is SessionKind.BATCH and bool(self.statements)
        return self.live and self.state is not SessionState.CLOSING and not finished

    @property
    def launchable(self) -> bool:
        if self.state is SessionState.RECOVERING and not self.in_states(STATEMENT.live):
            return False
        return self._needs_driver()

    def _needs_driver(self) -> bool:
        return self.state in _LAUNCHABLE and self.lease is Lease.NONE and self.fenced_driver is None

    def in_states(self, states: frozenset[StatementState]) -> list[ModelStatement]:
        return [statement for statement in self.statements if statement.state in states]

    def claim_launch(self) -> int | None:
        if not self._needs_driver():
            return None
        if self.state is SessionState.NOT_STARTED:
            self.state = SessionState.STARTING
        self.epoch += 1
        self.starts += 1
        self.lease, self.has_handle = Lease.VALID, False
        self.launched.append(self.epoch)
        return self.epoch

    def set_handle(self, epoch: int) -> bool:
        if epoch != self.epoch or not self.live:
            return False
        self.has_handle = True
        return True

    def hello(self, epoch: int) -> bool:
        if epoch != self.epoch or not SESSION.allows(self.state, SessionState.RUNNING):
            return False
        self.state, self.starts, self.lease = SessionState.RUNNING, 0, Lease.VALID
        return True

    def renew(self, epoch: int) -> SessionState | None:
        if epoch != self.epoch or not self.live:
            return None
        self.lease = Lease.VALID
        return self.state

    def claim_next(self, epoch: int) -> ModelStatement | None:
        """Claim the oldest waiting statement: alone, or as a query beside queries."""
        waiting = self.in_states(frozenset({StatementState.WAITING}))
        if epoch != self.epoch or self.state is not SessionState.RUNNING or not waiting:
            return None
        statement, in_flight = waiting[0], self.in_states(STATEMENT.in_flight)
        # A query whose driver was lost runs alone, as every other statement.
        only_queries = (
            statement.is_query
            and not statement.attempts
            and all(other.is_query and other.attempts == 1 for other in in_flight)
        )
        beside_queries = only_queries and len(in_flight) < self.parallelism
        if statement.local or (in_flight and not beside_queries):
            return None
        statement.claim(epoch)
        return statement

    def report(self, statement: ModelStatement, epoch: int, target: StatementState) -> bool:
        """Change the state of a statement, if the driver owns the statement and the session."""
        owned = statement in self.statements and statement.epoch == epoch == self.epoch
        return owned and statement.transition(target)

    def fence(self, epoch: int, *, only_if_overdue: bool) -> int | None:
        """Fence a driver, which then can change nothing."""
        driven = self.live and self.lease is not Lease.NONE and self.fenced_driver is None
        if (
            epoch != self.epoch
            or not driven
            or (only_if_overdue and self.lease is not Lease.EXPIRED)
        ):
            return None
        if self.state is SessionState.RUNNING:
            self.state = SessionState.RECOVERING
        self.fenced_driver, self.has_handle = epoch, False
        self.epoch += 1
        self.lease = Lease.VALID
        return self.epoch

    def reclaim_takeover(self, epoch: int) -> bool:
        fenced = epoch == self.epoch and self.fenced_driver is not None
        if not fenced or self.lease is not Lease.EXPIRED:
            return False
        self.lease = Lease.VALID
        return True

    def extend_lease(self, epoch: int) -> None:
        if epoch == self.epoch and self.fenced_driver is None and self.lease is not Lease.NONE:
            self.lease = Lease.VALID

    def finish_takeover(self, epoch: int) -> bool:
        """Finish a takeover: the process of the fenced driver is gone."""
        if epoch != self.epoch or self.fenced_driver is None:
            return False
        self.fenced_driver, self.lease = None, Lease.NONE
        return True

    def resolve_lost_statements(self) -> None:
        for statement in self.in_states(STATEMENT.in_flight):
            statement.resolve_loss()

    def close(self) -> None:
        self.state = SessionState.CLOSING
        for statement in self.in_states(STATEMENT.live):
            statement.request_cancel(CancelReason.CLOSED, force=False)
        if self.lease is Lease.NONE:
            self.finish_close()

    def finish_close(self, epoch: int | None = None) -> bool:
        return self._end(SessionState.DEAD, epoch)

    def fail(self, epoch: int | None = None) -> bool:
        """End the session after a failure. A closing session becomes `dead`."""
        closing = self.state is SessionState.CLOSING
        return self._end(SessionState.DEAD if closing else SessionState.FAILED, epoch)

    def _end(self, target: SessionState, epoch: int | None) -> bool:
        if epoch not in {None, self.epoch} or not SESSION.allows(self.state, target):
            return False
        self.state, self.lease, self.fenced_driver = target, Lease.NONE, None
        for statement in self.in_states(STATEMENT.live):
            statement.end_with_session()
        return True
