"""Polls of drivers that wait at this process for a statement.

The transaction that stores a statement also claims one for such a poll. The driver then receives it
without another transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from headrace.control.driver_link.statements import claim_next_assignment
from headrace.model.messages import Orders, Poll
from headrace.model.session import DriverLease
from headrace.model.statement import Statement
from headrace.store.database import Tx
from headrace.store.statements.limits import Limit


class _State(Enum):
    CLOSED = "its request reads the store, or has ended"
    OPEN = "a transaction may claim for it"
    CLAIMING = "a transaction claims for it"


class WaitingPolls:
    """The polls of this process that are open to claims. Any thread may use it."""

    def __init__(self, running_limit: Limit) -> None:
        self._running_limit = running_limit
        self._lock = threading.Lock()
        self._open: dict[str, WaitingPoll] = {}
        """Open polls by session."""

    def create(self, lease: DriverLease, message: Poll, wake: Callable[[], None]) -> WaitingPoll:
        """Return a new poll, which is closed.

        Args:
            wake: Lets the request look at the poll. Any thread calls it.
        """
        return WaitingPoll(self._open, self._lock, lease, message, wake)

    def claim(self, tx: Tx, session_id: str) -> Statement | None:
        """Claim the first statement in the queue of a session for an open poll of its driver.

        The poll receives the statement after the commit. If its request has ended by then, the
        driver receives the statement with its next poll, as after any lost response.

        Returns:
            The statement. None without an open poll, with a limit on running statements, which
            needs more reads, or if no statement may run now.
        """
        if self._running_limit.is_set:
            return None
        with self._lock:
            poll = self._open.pop(session_id, None)
            if poll is None:
                return None
            poll.state = _State.CLAIMING
        orders = None

        def finish(is_committed: bool) -> None:
            poll.finish_claim(orders, is_committed=is_committed)

        tx.on_end(finish)
        claimed = claim_next_assignment(tx, poll.lease, poll.message, self._running_limit)
        if claimed is None:
            return None
        statement, assignment = claimed
        orders = Orders(assignment=assignment)
        return statement


class WaitingPoll:
    """A poll. Its request opens it to claims while it waits, and closes it to read the store."""

    def __init__(
        self,
        open_polls: dict[str, WaitingPoll],
        lock: threading.Lock,
        lease: DriverLease,
        message: Poll,
        wake: Callable[[], None],
    ) -> None:
        self.lease, self.message = lease, message
        self.state = _State.CLOSED
        self.orders: Orders | None = None
        """The statement that a transaction has claimed for this poll."""
        self.may_claim = True
        """False after an attempt to claim: after one without success, another one is likely to find
        nothing either.
        """
        self._open_polls = open_polls
        self._lock = lock
        self._wake = wake

    def open(self) -> None:
        """Let transactions claim for this poll."""
        with self._lock:
            if self.may_claim and self.state is _State.CLOSED:
                self.state = _State.OPEN
                self._open_polls[self.lease.session_id] = self

    def use_attempt(self) -> bool:
        """Return whether the request may try a claim itself; from then on, it may not."""
        may_claim, self.may_claim = self.may_claim, False
        return may_claim

    def close(self) -> bool:
        """Let no other transaction claim for this poll.

        Return False if one claims at the moment. The request is woken afterwards.
        """
        with self._lock:
            if self.state is _State.OPEN:
                self.state = _State.CLOSED
                if self._open_polls.get(self.lease.session_id) is self:
                    del self._open_polls[self.lease.session_id]
            return self.state is _State.CLOSED

    def finish_claim(self, orders: Orders | None, *, is_committed: bool) -> None:
        """Take the outcome of a claim.

        Wake the request, unless it learns of the new statement by the wake-up that follows.
        """
        with self._lock:
            self.state = _State.CLOSED
            self.orders = orders if is_committed else None
            self.may_claim = not is_committed
        if self.orders is not None or not is_committed:
            self._wake()
