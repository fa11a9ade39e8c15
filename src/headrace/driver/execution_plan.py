"""The plan of a statement: the function that runs it, and the hook that commits its change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TwoPhaseCatalog, TwoPhaseChange
from headrace.driver.ctas.transaction import Journal, TransactionHook
from headrace.driver.hooks import StatementFacts
from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.parameters import empty_frame
from headrace.driver.writes.expectations import RowChecks
from headrace.driver.writes.locks import PlannedWrites
from headrace.errors import TableAlreadyExists
from headrace.model.expectation import ExpectationCounts
from headrace.model.headrace_options import Atomicity, Option

_LOG = logging.getLogger("headrace.driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """What became of the table that a statement creates or changes."""

    committed: str | None = None
    """Id of the transaction that published the change."""
    atomic: bool | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """The function that runs a statement, and the hook that commits its change."""

    run: Callable[[], DataFrame]
    """Runs the statement. Raises the errors of Spark."""
    hook: TransactionHook | None = None
    atomic: bool | None = None
    """Whether all rows of the statement appear or none. None if it writes no rows."""
    changes_nothing: bool = False
    """Whether the statement has nothing to do, so that its repetition is harmless."""
    may_write: bool = True
    """Whether the statement may write rows, which are then counted."""
    find_writes: Callable[[], PlannedWrites | None] | None = None
    """Finds the tables of files whose write lock the statement needs before it runs."""
    note: str | None = None
    """A remark for the user, if the statement succeeds."""
    on_blocked: Callable[[], object] = lambda: None
    """Called from time to time while another statement holds the write lock."""
    completed_earlier: bool = False
    """Whether a lost driver already wrote the table, so that only the commit remains."""
    checks: RowChecks | None = None
    """The expectations on the rows; None: the statement has none."""
    analysed: Any = None
    """Spark's analysed plan of the statement, if the statement runs in another form."""
    written: TablePath | None = None
    """The view whose rows the table has that the analysed plan writes."""

    def describe_outcome(self) -> TableOutcome:
        """Return what the report of a success says about the table."""
        hook = self.hook
        if hook is not None and hook.yielded:
            return TableOutcome(
                note=f"Nothing was done: another writer created {hook.target} while the statement"
                " ran."
            )
        if hook is None:
            return TableOutcome(atomic=self.atomic, note=self.note)
        return TableOutcome(committed=hook.transaction, atomic=self.atomic, note=hook.note)

    def check_rows(self, frame: DataFrame, rows_written: int | None) -> None:
        """Check the expectations of a statement that has run, before its hook commits its change.

        Args:
            frame: The DataFrame of the statement.
            rows_written: See `RowChecks.check`.

        Raises the errors of `RowChecks.check`.
        """
        if self.checks is None:
            return
        is_published = self.hook is None or self.hook.commits_natively
        self.checks.check(frame, rows_written, is_published=is_published)
        if self.hook is not None:
            self.hook.expectation_counts = self.checks.counts

    @property
    def expectation_counts(self) -> ExpectationCounts | None:
        """What was counted for the expectations, also by the lost driver that wrote the table."""
        if self.checks is not None:
            return self.checks.counts
        return None if self.hook is None else self.hook.expectation_counts

    @property
    def can_be_vetoed(self) -> bool:
        """Whether a user's hook can still fail the statement after the run.

        False if the table may already be visible after the run.
        """
        commits_natively = self.hook is not None and self.hook.commits_natively
        return not (self.completed_earlier or commits_natively)


def plan_change(
    session: SparkSession,
    run: Callable[[], DataFrame],
    catalog: TwoPhaseCatalog,
    table: TwoPhaseChange,
    journal: Journal,
    *,
    target: str,
    statement: StatementFacts,
    analysed: Any,
    written: TablePath | None = None,
    ignore_if_exists: bool = False,
    find_writes: Callable[[], PlannedWrites | None] | None = None,
) -> ExecutionPlan:
    """Return the plan that makes a two-phase change.

    Args:
        run: Writes the rows.
        target: Lock key of the table.
        analysed, written: See `ExecutionPlan`.
    """
    hook = TransactionHook(
        catalog, table, journal, target=target, ignore_if_exists=ignore_if_exists
    )
    return ExecutionPlan(
        run=lambda: _run_change(session, run, hook, statement),
        find_writes=find_writes,
        on_blocked=journal.on_busy,
        hook=hook,
        atomic=hook.atomic,
        analysed=analysed,
        written=written,
    )


def _run_change(
    session: SparkSession,
    run: Callable[[], DataFrame],
    hook: TransactionHook,
    statement: StatementFacts,
) -> DataFrame:
    """Run the write, and check after an error whether the catalog committed natively anyway.

    If the table appeared meanwhile and the statement ignores that, the hook aborts the table.

    Raises:
        TableAlreadyExists: the catalog refused to commit, because the table appeared meanwhile.
    """
    try:
        return run()
    except (PySparkException, Py4JError) as error:
        # A cancel of the statement must not cancel this check: remove its job tag.
        session.sparkContext.removeJobTag(statement.id)
        if not hook.commits_natively:
            raise
        if hook.must_roll_forward():
            _LOG.warning(
                "statement %s: its table was published despite an error: %s", statement.id, error
            )
            return empty_frame(session)
        refusal = hook.explain_commit_refusal(error)
        if refusal is None:
            raise
        if isinstance(refusal, TableAlreadyExists) and hook.ignores_existing_table:
            hook.yield_to_existing_table(statement)
            return empty_frame(session)
        raise refusal from error


def read_atomicity(session: SparkSession, option: Option[Atomicity]) -> Atomicity:
    """Return the value of an option on atomicity. Raises InvalidSetting."""
    value = session.conf.get(option.key, None)
    return option.default if value is None else option.parse(value)
