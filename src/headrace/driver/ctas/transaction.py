"""Binds a two-phase table to the life of its statement, and journals every step."""

from __future__ import annotations

import logging
import time
from functools import cached_property

from py4j.protocol import Py4JNetworkError

from headrace.driver.ctas.base import TwoPhaseCatalog, TwoPhaseTable
from headrace.driver.ctas.journal import Journal
from headrace.driver.hooks import StatementFacts, StatementHook
from headrace.errors import HeadraceError, StatementFailed
from headrace.model.lifecycle import TransactionState
from headrace.model.transaction import Staged

_LOG = logging.getLogger("headrace.driver")
_PAUSES = (0.5, 2.0, 5.0)
"""Before a commit is tried again that the catalog has not refused."""


class CommitUnfinished(HeadraceError):
    """A table stays `committing`: whether it is published is for another driver to find out."""


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

    @property
    def atomic(self) -> bool:
        return self._table.atomic

    @property
    def commits_natively(self) -> bool:
        return self._table.commits_natively

    def refusal(self, error: Exception) -> StatementFailed | None:
        return self._table.refusal(error)

    def is_done(self) -> bool:
        """Whether there is nothing but to finish: no cancel and no failure leads back."""
        if self._left_as is TransactionState.COMMITTING:
            return True
        return self._prepared and self._table.commits_natively and self._table.published()

    def on_created(self, statement: StatementFacts) -> None:  # noqa: ARG002 - the contract's
        """Raises Cancelled, and what `begin` raises."""
        if self._left_as is None:
            self._journal.write(TransactionState.PREPARED, self._staged())
            self._prepared = True
            self._table.begin()
            self._journal.write(TransactionState.BEGUN)

    def on_finished(self, statement: StatementFacts) -> None:
        """Raises Cancelled, Unfinished, and what `commit` raises for a refusal."""
        if self._left_as is not TransactionState.COMMITTING:
            self._table.seal()
            there = self._table.commits_natively
            self._journal.write(TransactionState.COMMITTING, self._staged(), published=there)
        self._commit()
        _LOG.info("statement %s: %s committed: %s", statement.id, self.transaction, self._target)

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:  # noqa: ARG002 - as above
        """Raises what `abort` raises: the journal says then that it is still to be done."""
        self._abort(statement)

    def on_cancelled(self, statement: StatementFacts) -> None:
        """As `on_failed`."""
        self._abort(statement)

    def _commit(self) -> None:
        for pause in (*_PAUSES, None):
            try:
                self._table.commit()
            except (StatementFailed, Py4JNetworkError):
                raise
            except Exception as error:
                _LOG.warning("%s of %s: %s", self.transaction, self._target, error)
                if pause is None:
                    raise CommitUnfinished(
                        f"{self._target} cannot be published now: {error}"
                    ) from error
                time.sleep(pause)
            else:
                return

    def _abort(self, statement: StatementFacts) -> None:
        if not self._prepared:
            return
        self._journal.write(TransactionState.ABORTING)
        self._table.abort()
        self._journal.write(TransactionState.ABORTED)
        _LOG.info("statement %s: %s rolled back: %s", statement.id, self.transaction, self._target)

    @cached_property
    def _identity(self) -> str:
        return self._catalog.identity()

    def _staged(self) -> Staged:
        return Staged(
            kind=self._catalog.kind,
            catalog=self._catalog.catalog,
            identity=self._identity,
            target=self._target,
            location=self._table.location,
            record=self._table.record(),
            commits_natively=self._table.commits_natively,
        )
