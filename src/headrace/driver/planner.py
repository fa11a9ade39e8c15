"""Plans how a statement runs: as plain Spark, or as a CTAS in two phases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import (
    TableDefinition,
    TwoPhaseCatalog,
    TwoPhaseChange,
    TwoPhaseTable,
    WriteDefinition,
)
from headrace.driver.ctas.bounded_stream import StreamedTable, bounded_trigger, run_to_end
from headrace.driver.ctas.catalogs import find_catalog, find_write_catalog, restore_table
from headrace.driver.ctas.detect import Ctas, describe_ctas, may_create_table
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.transaction import Journal, TransactionHook
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.driver.parameters import Binding, parse_statement, run_statement
from headrace.driver.writes.detect import WriteDetector
from headrace.driver.writes.insert import describe_insert, may_write_rows
from headrace.driver.writes.locks import PlannedWrites
from headrace.errors import AtomicityRequired, CatalogError, TableAlreadyExists
from headrace.model.ctas_options import ATOMICITY_KEY, WRITES_ATOMICITY_KEY, Atomicity
from headrace.model.ids import new_id
from headrace.model.messages import Assignment, JournalEntry

_LOG = logging.getLogger("headrace.driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """What became of the table of a CTAS. All fields are None for other statements."""

    committed: str | None = None
    """Id of the transaction that published the table."""
    atomic: bool | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """The function that runs a statement, and the hook that commits its table."""

    run: Callable[[], DataFrame]
    """Runs the statement. Raises the errors of Spark."""
    hook: TransactionHook | None = None
    atomic: bool | None = None
    """Whether the table of a CTAS appears complete or not at all. None for other statements."""
    find_writes: Callable[[], PlannedWrites | None] | None = None
    """Finds the tables of files whose write lock the statement needs before it runs."""
    note: str | None = None
    """A remark for the user, if the statement succeeds."""
    on_blocked: Callable[[], None] = lambda: None
    """Called from time to time while another statement holds the write lock."""
    completed_earlier: bool = False
    """Whether a lost driver already wrote the table, so that only the commit remains."""

    def describe_outcome(self) -> TableOutcome:
        """Return what the report of a success says about the table of a CTAS."""
        hook = self.hook
        if hook is not None and hook.yielded:
            return TableOutcome(
                note=f"Nothing was done: another writer created {hook.target} while the statement"
                " ran."
            )
        if hook is None:
            return TableOutcome(atomic=self.atomic, note=self.note)
        return TableOutcome(committed=hook.transaction, atomic=self.atomic, note=hook.note)

    @property
    def can_be_vetoed(self) -> bool:
        """Whether a user's hook can still fail the statement after the run.

        False if the table may already be visible after the run.
        """
        commits_natively = self.hook is not None and self.hook.commits_natively
        return not (self.completed_earlier or commits_natively)


def plan_statement(
    session: SparkSession, assignment: Assignment, link: NodeLink, statement: StatementFacts
) -> ExecutionPlan:
    """Plan a statement, and resolve the transaction of an earlier attempt first.

    The earlier transaction is rolled forward by the plan, or rolled back here.

    Raises:
        PySparkException: Spark rejects the CTAS.
        AtomicityRequired: the CTAS cannot be atomic and the session requires it.
        StatementFailed: the catalog rejects the target, see
            `TwoPhaseCatalog.create_two_phase_table`.
    """
    if assignment.is_query:
        return ExecutionPlan(run=lambda: run_statement(session, assignment))
    resumed = resume_transaction(session, assignment, link, statement)
    if resumed is not None:
        return resumed
    parsed_plan, bind = parse_statement(session, assignment)
    ctas = describe_ctas(session, parsed_plan, bind)
    if ctas is None:
        write = _plan_write(session, assignment, link, statement, parsed_plan, bind)
        if write is not None:
            return write
        if _atomicity(session) is Atomicity.REQUIRE and may_create_table(session, assignment):
            raise AtomicityRequired(
                "A CREATE TABLE AS inside BEGIN … END or EXECUTE IMMEDIATE is not atomic, and"
                f" {ATOMICITY_KEY} is 'require'. Submit it as a statement of its own."
            )
        return ExecutionPlan(
            run=lambda: run_statement(session, assignment),
            find_writes=lambda: _find_writes(session, assignment),
            on_blocked=lambda: recover(session, link),
        )
    return _plan_ctas(ctas, assignment, link, statement)


def resume_transaction(
    session: SparkSession, assignment: Assignment, link: NodeLink, statement: StatementFacts
) -> ExecutionPlan | None:
    """Return the plan that completes the transaction of an earlier attempt.

    Return None if there is none, or if it was rolled back here. Raises CatalogError.
    """
    if assignment.transaction is None:
        return None
    hook = _restore_hook(session, assignment.transaction, link, assignment.statement_id)
    if not hook.must_roll_forward():
        hook.on_cancelled(statement)
        return None
    return ExecutionPlan(
        run=lambda: _empty_frame(session),
        hook=hook,
        atomic=hook.atomic,
        completed_earlier=True,
    )


def plan_change(
    session: SparkSession,
    run: Callable[[], DataFrame],
    catalog: TwoPhaseCatalog,
    table: TwoPhaseChange,
    journal: Journal,
    *,
    target: str,
    statement: StatementFacts,
    ignore_if_exists: bool = False,
    find_writes: Callable[[], PlannedWrites | None] | None = None,
) -> ExecutionPlan:
    """Return the plan that makes a two-phase change.

    Args:
        run: Writes the rows.
        target: Lock key of the table.
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
    )


def _plan_write(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    statement: StatementFacts,
    parsed_plan: Any,
    bind: Binding,
) -> ExecutionPlan | None:
    """Return the plan of a write to a table that can be made in two phases, or None.

    Raises AtomicityRequired if the session requires an atomic write, and this one cannot be.
    """
    atomicity = _atomicity(session, WRITES_ATOMICITY_KEY)
    insert = None if atomicity is Atomicity.OFF else describe_insert(session, parsed_plan, bind)
    catalog = None if insert is None else find_write_catalog(session, insert.path)
    write, transaction = None, new_id("tx")
    if insert is not None and catalog is not None:
        epoch = link.bootstrap.epoch
        definition = WriteDefinition(transaction=transaction, epoch=epoch, plan=insert.command)
        write = catalog.create_two_phase_write(insert.path, definition)
    if insert is None or catalog is None or write is None:
        if atomicity is Atomicity.REQUIRE and may_write_rows(parsed_plan):
            raise AtomicityRequired(
                f"This write is not atomic, and {WRITES_ATOMICITY_KEY} is 'require'. Set it to"
                " 'auto' to run the statement."
            )
        return None
    journal = Journal(
        link, transaction, assignment.statement_id, on_busy=lambda: recover(session, link)
    )
    return plan_change(
        session,
        write.run,
        catalog,
        write,
        journal,
        target=insert.path.lock_key,
        statement=statement,
        find_writes=lambda: _find_writes(session, assignment),
    )


def _find_writes(session: SparkSession, assignment: Assignment) -> PlannedWrites | None:
    plan, _bind = parse_statement(session, assignment)
    writes = WriteDetector(session).find_writes(plan)
    if not writes:
        return None
    return PlannedWrites(SessionCatalog(session, "spark_catalog").identity(), writes)


def _find_replaced_table(ctas: Ctas) -> PlannedWrites | None:
    """Return the replacement of a table of files: rows of other writes would be dropped with it."""
    if not (ctas.replaces and ctas.is_session_catalog):
        return None
    write = WriteDetector(ctas.session).find_replaced(ctas.path)
    if write is None:
        return None
    return PlannedWrites(SessionCatalog(ctas.session, ctas.path.catalog).identity(), [write])


def _atomicity(session: SparkSession, key: str = ATOMICITY_KEY) -> Atomicity:
    return Atomicity.parse(str(session.conf.get(key, Atomicity.AUTO)), key)


def _plan_ctas(
    ctas: Ctas, assignment: Assignment, link: NodeLink, statement: StatementFacts
) -> ExecutionPlan:
    session = ctas.session
    atomicity = _atomicity(session)
    trigger = bounded_trigger(session) if ctas.is_streaming else None
    transaction = new_id("tx")
    catalog = None if atomicity is Atomicity.OFF else find_catalog(ctas)
    table = (
        None
        if catalog is None
        else create_two_phase_table(ctas, catalog, transaction, link.bootstrap.epoch)
    )
    if catalog is None or table is None:
        _check_plain_spark_is_allowed(ctas, atomicity)
        return ExecutionPlan(run=lambda: run_statement(session, assignment), atomic=False)
    write_target = table.write_target
    if write_target is None:
        note = f"Nothing was done: {ctas.path.sql_name} already exists."
        return ExecutionPlan(run=lambda: _empty_frame(session), note=note)
    if atomicity is Atomicity.REQUIRE and not table.atomic:
        raise _not_atomic_error(ctas)
    stream_location = f"{link.bootstrap.results.rstrip('/')}/streams/{transaction}"
    if trigger is not None:
        table = StreamedTable(table, stream_location, HadoopFiles(session))

    def run() -> DataFrame:
        if trigger is None:
            return ctas.write_to(write_target)
        rows = run_to_end(ctas.query, trigger, stream_location, assignment.statement_id)
        return ctas.write_to(write_target, rows)

    journal = Journal(
        link, transaction, assignment.statement_id, on_busy=lambda: recover(session, link)
    )
    return plan_change(
        session,
        run,
        catalog,
        table,
        journal,
        target=ctas.path.lock_key,
        statement=statement,
        ignore_if_exists=ctas.ignore_if_exists,
        find_writes=lambda: _find_replaced_table(ctas),
    )


def create_two_phase_table(
    ctas: Ctas, catalog: TwoPhaseCatalog, transaction: str, epoch: int
) -> TwoPhaseTable | None:
    """Return the two-phase table of a CTAS. See `TwoPhaseCatalog.create_two_phase_table`."""
    return catalog.create_two_phase_table(
        ctas.path,
        TableDefinition(
            transaction=transaction,
            epoch=epoch,
            provider=ctas.provider,
            location=ctas.location,
            properties=ctas.properties,
            replaces=ctas.replaces,
            must_exist=ctas.must_exist,
            plan=ctas.analysed,
        ),
        ignore_if_exists=ctas.ignore_if_exists,
        is_streaming=ctas.is_streaming,
    )


def _check_plain_spark_is_allowed(ctas: Ctas, atomicity: Atomicity) -> None:
    """Raise AtomicityRequired or CatalogError if the CTAS must not run as plain Spark."""
    if atomicity is Atomicity.REQUIRE:
        raise _not_atomic_error(ctas)
    if ctas.is_streaming:
        raise CatalogError(
            f"Table {ctas.path.sql_name} cannot be created from a stream, because it would not be"
            f" created atomically. Use a catalog with atomic tables, and set {ATOMICITY_KEY} to a"
            " value other than 'off'."
        )


def _not_atomic_error(ctas: Ctas) -> AtomicityRequired:
    action = "replaced" if ctas.replaces else "created"
    return AtomicityRequired(
        f"Table {ctas.path.sql_name} cannot be {action} atomically, and {ATOMICITY_KEY} is"
        f" 'require'. Use another catalog, or set {ATOMICITY_KEY} to 'auto'."
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
            return _empty_frame(session)
        refusal = hook.explain_commit_refusal(error)
        if refusal is None:
            raise
        if isinstance(refusal, TableAlreadyExists) and hook.ignores_existing_table:
            hook.yield_to_existing_table(statement)
            return _empty_frame(session)
        raise refusal from error


def _restore_hook(
    session: SparkSession, entry: JournalEntry, link: NodeLink, statement_id: str
) -> TransactionHook:
    """Rebuild the hook of a transaction that an earlier driver began. Raises CatalogError."""
    catalog, table = restore_table(session, entry)
    journal = Journal(link, entry.id, statement_id)
    return TransactionHook(
        catalog,
        table,
        journal,
        target=entry.staged.target,
        ignore_if_exists=entry.staged.ignore_if_exists,
        journal_state=entry.state,
    )


def _empty_frame(session: SparkSession) -> DataFrame:
    """Return the result of a CTAS: no columns and no rows."""
    return session.sql("SELECT 1 WHERE false").select()
