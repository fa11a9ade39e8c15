"""A driver's link that keeps the journal of one table transaction in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from headrace.driver.link import NodeLink
from headrace.model.lifecycle import TRANSACTION, TransactionState
from headrace.model.messages import (
    Bootstrap,
    FailedRecovery,
    FoundStreams,
    OrphanedTransaction,
    Transact,
    Transacted,
)
from headrace.model.transaction import Staged

BOOTSTRAP = Bootstrap(
    session_id="se_1",
    epoch=3,
    token=None,
    nodes=[],
    conf={},
    # No test can create it: a test that writes results names a place of its own.
    results="/dev/null/results",
    inline_limit=2**18,
    chunk_limit=2**23,
    lease_seconds=15,
    renew_seconds=5,
    orphan_seconds=60,
)


class JournalLink:
    """Answers the calls `transact` and `recover` in place of a node."""

    def __init__(self) -> None:
        self.bootstrap = BOOTSTRAP
        self.steps: list[TransactionState] = []
        """Journalled states, in order."""
        self.staged: Staged | None = None
        self.transaction = ""
        """Id of the last transaction."""
        self.before_step: Callable[[TransactionState], None] = lambda _state: None
        """Called before each state is journalled."""
        self.refused_states: set[TransactionState] = set()
        """States that are refused, as for a statement that is being cancelled."""
        self.busy_answers = 0
        """How many times to answer that the table name is locked."""
        self.orphaned: list[OrphanedTransaction] = []
        self.failed: list[FailedRecovery] = []
        """Reported transactions that could not be resolved."""

    def recover(
        self, identities: list[str], failed: list[FailedRecovery]
    ) -> list[OrphanedTransaction]:
        self.failed += failed
        claimed = [orphan for orphan in self.orphaned if orphan.staged.identity in identities]
        self.orphaned = [orphan for orphan in self.orphaned if orphan not in claimed]
        return claimed

    def find_streams(self, names: list[str]) -> FoundStreams:
        return FoundStreams()

    def transact(self, message: Transact) -> Transacted:
        self.before_step(message.state)
        if message.state in self.refused_states and not message.published:
            return Transacted(applied=False)
        if self.busy_answers and message.state is TransactionState.COMMITTING:
            self.busy_answers -= 1
            return Transacted(applied=False, busy=True)
        if self.steps and self.steps[-1] is message.state:
            return Transacted(applied=True)
        if message.state is not TRANSACTION.initial:
            assert TRANSACTION.allows(self.steps[-1], message.state)
        self.steps.append(message.state)
        self.transaction = message.id
        self.staged = message.staged or self.staged
        return Transacted(applied=True)

    def as_link(self) -> NodeLink:
        return cast("NodeLink", self)
