"""Binds a two-phase table to the life of its statement, and journals every step."""

from __future__ import annotations

import logging

from headrace.driver.ctas.contract import TwoPhaseCatalog, TwoPhaseTable
from headrace.driver.ctas.hooks import StatementFacts, StatementHook
from headrace.driver.ctas.journal import Journal
from headrace.model.lifecycle import TransactionState
from headrace.model.transaction import Staged

_LOG = logging.getLogger("headrace.driver")


class CtasHook(StatementHook):
    """Created: begin. Finished: commit. Failed or cancelled: abort."""

    def __init__(
        self,
        catalog: TwoPhaseCatalog,
        table: TwoPhaseTable,
        journal: Journal,
        *,
        target: str,
        left_as: TransactionState | None = None,
    ) -> None:
        """`left_as` is the journal's last word on what another process has left."""
        self._catalog = catalog
        self._table = table
        self._journal = journal
        self._target = target
        self._left_as = left_as
        self._prepared = left_as is not None

    @property
    def transaction(self) -> str:
        return self._journal.id

    def on_created(self, statement: StatementFacts) -> None:  # noqa: ARG002 - the contract's
        """Raises Cancelled, and what `begin` raises."""
        if self._left_as is None:
            self._journal.write(TransactionState.PREPARED, self._staged())
            self._prepared = True
            self._table.begin()
            self._journal.write(TransactionState.BEGUN)

    def on_finished(self, statement: StatementFacts) -> None:
        """Raises Cancelled, and what `commit` raises."""
        if self._left_as is None:
            self._table.seal()
            self._journal.write(TransactionState.COMMITTING, self._staged())
        self._table.commit()
        _LOG.info("statement %s: %s committed: %s", statement.id, self.transaction, self._target)

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:  # noqa: ARG002 - as above
        """Raises what `abort` raises: the journal says then that it is still to be done."""
        self._abort(statement)

    def on_cancelled(self, statement: StatementFacts) -> None:
        """As `on_failed`."""
        self._abort(statement)

    def _abort(self, statement: StatementFacts) -> None:
        if not self._prepared:
            return
        self._journal.write(TransactionState.ABORTING)
        self._table.abort()
        self._journal.write(TransactionState.ABORTED)
        _LOG.info("statement %s: %s rolled back: %s", statement.id, self.transaction, self._target)

    def _staged(self) -> Staged:
        return Staged(
            kind=self._catalog.kind,
            catalog=self._catalog.catalog,
            identity=self._catalog.identity(),
            target=self._target,
            record=self._table.record(),
        )
