"""The transaction of one two-phase change: its journal, and the hook that drives it.

The journal entry of each step is written before the step itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cached_property

from py4j.protocol import Py4JNetworkError

from headrace.driver.ctas.base import TwoPhaseCatalog, TwoPhaseChange
from headrace.driver.hooks import StatementFacts, StatementHook
from headrace.driver.link import NodeLink
from headrace.errors import HeadraceError, StatementFailed, TableAlreadyExists
from headrace.files.places import identify
from headrace.model.expectation import ExpectationCounts
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Transact
from headrace.model.transaction import Staged

_LOG = logging.getLogger("headrace.driver")
_COMMIT_RETRY_PAUSES = (0.5, 2.0, 5.0)
"""Seconds to wait before each retry of a commit that failed without a refusal."""
_FIRST_BUSY_PAUSE = 0.05
_LONGEST_BUSY_PAUSE = 1.0
"""Seconds between attempts to write a journal entry while the table name is locked."""


class Cancelled(HeadraceError):
    """The statement was cancelled before its table was published."""

    code = "cancelled"


class CommitUnfinished(HeadraceError):
    """The transaction stays `committing`. Another driver determines whether it was published."""


class Journal:
    """Writes the journal entries of one transaction over the link."""

    def __init__(
        self,
        link: NodeLink,
        transaction_id: str,
        statement_id: str,
        *,
        on_busy: Callable[[], object] = lambda: None,
    ) -> None:
        """Create the journal of a transaction.

        Args:
            on_busy: Called from time to time while another transaction holds the table name.
        """
        self.id = transaction_id
        self._link = link
        self._statement_id = statement_id
        self.on_busy = on_busy

    def write(
        self, state: TransactionState, staged: Staged | None = None, *, published: bool = False
    ) -> None:
        """Record the next state, and wait while another transaction holds the table name.

        Args:
            published: Whether the table is already visible. A cancel is too late then.

        Raises:
            Cancelled: the node refused the state, because the statement is being cancelled. The
                states `aborting` and `aborted` are never refused for this reason.
        """
        message = Transact(
            id=self.id,
            statement_id=self._statement_id,
            state=state,
            staged=staged,
            published=published,
        )
        pause = _FIRST_BUSY_PAUSE
        while True:
            answer = self._link.transact(message)
            if answer.applied:
                return
            if not answer.busy:
                raise Cancelled
            if pause == _LONGEST_BUSY_PAUSE:
                # The transaction that holds the name may be orphaned.
                self.on_busy()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_BUSY_PAUSE)


class TransactionHook(StatementHook):
    """Begins the table before its statement runs, and commits or aborts the table at the end."""

    def __init__(
        self,
        catalog: TwoPhaseCatalog,
        table: TwoPhaseChange,
        journal: Journal,
        *,
        target: str,
        ignore_if_exists: bool = False,
        journal_state: TransactionState | None = None,
    ) -> None:
        """Create the hook of one table.

        Args:
            target: Lock key of the target table.
            ignore_if_exists: Whether the statement succeeds if another writer has created the
                table first. Its own table is then aborted.
            journal_state: Last journalled state, if another driver began this transaction.
        """
        self._catalog = catalog
        self._table = table
        self._journal = journal
        self._target = target
        self._ignore_if_exists = ignore_if_exists
        self._yielded = False
        self._journal_state = journal_state
        self._prepared = journal_state is not None
        self.expectation_counts: ExpectationCounts | None = None
        """What was counted of the staged rows. The journal keeps it for the next driver."""

    @property
    def transaction(self) -> str:
        """Id of the transaction."""
        return self._journal.id

    @property
    def target(self) -> str:
        """Lock key of the target table."""
        return self._target

    @property
    def atomic(self) -> bool:
        """See `TwoPhaseChange.atomic`."""
        return self._table.atomic

    @property
    def note(self) -> str | None:
        """See `TwoPhaseChange.note`."""
        return self._table.note

    @property
    def rows_written(self) -> int | None:
        """See `TwoPhaseChange.rows_written`."""
        return self._table.rows_written

    @property
    def ignores_existing_table(self) -> bool:
        """Whether the statement succeeds if another writer has created the table first."""
        return self._ignore_if_exists

    @property
    def yielded(self) -> bool:
        """Whether the table was aborted, because another writer had created it first."""
        return self._yielded

    @property
    def commits_natively(self) -> bool:
        """See `TwoPhaseChange.commits_natively`."""
        return self._table.commits_natively

    def explain_commit_refusal(self, error: Exception) -> StatementFailed | None:
        """Call `TwoPhaseChange.explain_commit_refusal`."""
        return self._table.explain_commit_refusal(error)

    def must_roll_forward(self) -> bool:
        """Return whether the transaction can no longer be aborted and must be completed."""
        if self._journal_state is TransactionState.COMMITTING:
            return True
        return self._prepared and self._table.commits_natively and self._table.is_published()

    def on_created(self, statement: StatementFacts) -> None:  # noqa: ARG002 - part of the interface
        """Begin the table. Raises Cancelled and the errors of `TwoPhaseChange.begin`."""
        if self._journal_state is None:
            self._journal.write(TransactionState.PREPARED, self._describe_staging())
            self._prepared = True
            self._table.begin()
            self._journal.write(TransactionState.BEGUN)

    def on_finished(self, statement: StatementFacts) -> None:
        """Commit the table, or abort it if the statement ignores that the table already exists.

        Raises:
            Cancelled: the statement was cancelled before the commit.
            CommitUnfinished: the commit failed repeatedly, and its outcome is unknown.
            StatementFailed: the catalog refused the commit.
        """
        if self._yielded:
            return
        if self._journal_state is not TransactionState.COMMITTING:
            self._table.finish_write()
            self._journal.write(
                TransactionState.COMMITTING,
                self._describe_staging(),
                published=self._table.commits_natively,
            )
        try:
            self._commit()
        except TableAlreadyExists:
            if not self._ignore_if_exists:
                raise
            self.yield_to_existing_table(statement)
            return
        _LOG.info(
            "statement %s: committed %s of table %s", statement.id, self.transaction, self._target
        )

    def yield_to_existing_table(self, statement: StatementFacts) -> None:
        """Abort the table, because another writer has created it first. Raises like `on_failed`."""
        self._abort(statement)
        self._yielded = True

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:  # noqa: ARG002 - part of the interface
        """Abort the table.

        Raises the errors of `TwoPhaseChange.abort`. The journal then stays at `aborting`.
        """
        self._abort(statement)

    def on_cancelled(self, statement: StatementFacts) -> None:
        """Abort the table, like `on_failed`."""
        self._abort(statement)

    def _commit(self) -> None:
        for pause in (*_COMMIT_RETRY_PAUSES, None):
            try:
                self._table.commit()
            except (StatementFailed, CommitUnfinished, Py4JNetworkError):
                raise
            except Exception as error:
                _LOG.warning("commit of %s (table %s): %s", self.transaction, self._target, error)
                if pause is None:
                    raise CommitUnfinished(
                        f"The commit of table {self._target} failed repeatedly: {error}"
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
        _LOG.info(
            "statement %s: rolled back %s of table %s", statement.id, self.transaction, self._target
        )

    @cached_property
    def _catalog_identity(self) -> str:
        return self._catalog.identity()

    def _describe_staging(self) -> Staged:
        location = self._table.location
        return Staged(
            kind=self._catalog.kind,
            catalog=self._catalog.catalog,
            identity=self._catalog_identity,
            target=self._target,
            location=location,
            place=None if location is None else identify(location),
            record=self._table.to_record(),
            commits_natively=self._table.commits_natively,
            shares_target=self._table.shares_target,
            ignore_if_exists=self._ignore_if_exists,
            expectation_counts=self.expectation_counts,
        )
