"""A link in the place of a node's: it keeps the journal of table transactions in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from headrace.driver.link import NodeLink
from headrace.model.lifecycle import TRANSACTION, TransactionState
from headrace.model.messages import Bootstrap, OrphanedTransaction, Transact, Transacted
from headrace.model.transaction import Staged

BOOTSTRAP = Bootstrap(
    session_id="se_1",
    epoch=3,
    token=None,
    nodes=[],
    conf={},
    results="/nowhere",
    inline_limit=2**18,
    chunk_limit=2**23,
    lease_seconds=15,
    renew_seconds=5,
    orphan_seconds=60,
)


class JournalLink:
    """Answers `transact`; `refuse` says which steps do not land."""

    def __init__(self) -> None:
        self.bootstrap = BOOTSTRAP
        self.steps: list[TransactionState] = []
        self.staged: Staged | None = None
        self.before: Callable[[TransactionState], None] = lambda _state: None
        self.refuse: set[TransactionState] = set()
        self.busy = 0
        self.left: list[OrphanedTransaction] = []

    def recover(self, identities: list[str]) -> list[OrphanedTransaction]:
        taken = [one for one in self.left if one.staged.identity in identities]
        self.left = [one for one in self.left if one not in taken]
        return taken

    def transact(self, message: Transact) -> Transacted:
        self.before(message.state)
        if message.state in self.refuse and not message.published:
            return Transacted(applied=False)
        if self.busy and message.state is TransactionState.COMMITTING:
            self.busy -= 1
            return Transacted(applied=False, busy=True)
        if self.steps and self.steps[-1] is message.state:
            return Transacted(applied=True)
        if message.state is not TRANSACTION.initial:
            assert TRANSACTION.allows(self.steps[-1], message.state)
        self.steps.append(message.state)
        self.staged = message.staged or self.staged
        return Transacted(applied=True)

    def as_link(self) -> NodeLink:
        return cast("NodeLink", self)
