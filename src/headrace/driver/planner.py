"""Plans how a statement runs: as plain Spark, or as a CTAS in two phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import (
    TableDefinition,
    TwoPhaseCatalog,
    TwoPhaseTable,
    WriteDefinition,
)
from headrace.driver.ctas.bounded_stream import StreamedTable, bounded_trigger, run_to_end
from headrace.driver.ctas.catalogs import find_catalog, find_write_catalog, restore_table
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.transaction import Journal, TransactionHook
from headrace.driver.execution_plan import (
    ExecutionPlan,
    plan_change,
    read_atomicity,
)
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.driver.spark_version.ctas_plan import Ctas, describe_ctas, may_create_table
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.parameters import (
    Binding,
    empty_frame,
    frame_of_plan,
    parse_statement,
    run_statement,
)
from headrace.driver.spark_version.written_rows import (
    RowChange,
    RowWrites,
    describe_row_change,
    find_row_writes,
)
from headrace.driver.writes.expectations import RowChecks
from headrace.driver.writes.locks import PlannedWrites, WriteDetector
from headrace.errors import AtomicityRequired, CatalogError
from headrace.model.headrace_options import CTAS_ATOMICITY, WRITES_ATOMICITY, Atomicity
from headrace.model.ids import new_id
from headrace.model.messages import Assignment, JournalEntry


def plan_write(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    statement: StatementFacts,
    parsed_plan: Any,
    bind: Binding,
) -> ExecutionPlan:
    """Return the plan of a statement that is no CTAS and no pure query.

    Raises AtomicityRequired if the session requires an atomic write, and this one cannot be.
    Raises what Spark raises if it rejects the statement.
    """
    # SET, RESET and other statements that write no rows must not depend on any setting.
    row_writes, atomicity = find_row_writes(session, parsed_plan), Atomicity.AUTO
    if row_writes.possible:
        atomicity = read_atomicity(session, WRITES_ATOMICITY)
    change = None if atomicity is Atomicity.OFF else describe_row_change(session, parsed_plan, bind)
    catalog = None if change is None else find_write_catalog(session, change)
    write, transaction = None, new_id("tx")
    if change is not None and catalog is not None:
        definition = _define_write(session, assignment, link, change, transaction)
        write = catalog.create_two_phase_write(change.path, definition)
    if change is None or catalog is None or write is None:
        return _plan_plain_write(session, assignment, link, parsed_plan, row_writes, atomicity)
    journal = Journal(
        link, transaction, assignment.statement_id, on_busy=lambda: recover(session, link)
    )
    locked, shares_target = write.locked_files, write.shares_target
    return plan_change(
        session,
        write.run,
        catalog,
        write,
        journal,
        target=change.path.lock_key,
        statement=statement,
        analysed=change.command,
        find_writes=lambda: (
            _find_writes(session, parsed_plan, shared=shares_target)
            if locked is None
            else PlannedWrites(catalog.identity(), [locked])
        ),
    )


def _plan_plain_write(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    parsed_plan: Any,
    row_writes: RowWrites,
    atomicity: Atomicity,
) -> ExecutionPlan:
    """Return the plan of a statement that Spark runs unchanged. Raises AtomicityRequired."""
    if atomicity is Atomicity.REQUIRE and row_writes.possible:
        raise AtomicityRequired(
            f"This write is not atomic, and {WRITES_ATOMICITY.key} is 'require'. Set it to 'auto'"
            " to run the statement."
        )
    return ExecutionPlan(
        run=lambda: run_statement(session, assignment),
        atomic=False if row_writes.certain else None,
        may_write=row_writes.possible,
        find_writes=lambda: _find_writes(session, parsed_plan),
        on_blocked=lambda: recover(session, link),
    )


def _define_write(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    change: RowChange,
    transaction: str,
) -> WriteDefinition:
    # The statements of a session that change rows run one after another, unless they run in pool
    # sessions of their own or of their connections: Delta drops a write with an older version.
    has_own_session = assignment.isolated or assignment.connection is not None
    is_ordered = assignment.ordinal is not None and not has_own_session
    writer = link.bootstrap.session_id if is_ordered else assignment.statement_id
    return WriteDefinition(
        transaction=transaction,
        epoch=link.bootstrap.epoch,
        plan=change.command,
        run=lambda: frame_of_plan(session, change.command),
        writer=f"headrace/{writer}",
        version=(assignment.ordinal or 0) if is_ordered else 0,
    )


def _find_writes(
    session: SparkSession, parsed_plan: Any, *, shared: bool | None = None
) -> PlannedWrites | None:
    """Return the tables of files that a statement writes to.

    Args:
        shared: Whether other statements may write to them meanwhile; None: as plain Spark needs it.
    """
    writes = WriteDetector(session).find_writes(parsed_plan)
    if not writes:
        return None
    if shared is not None:
        writes = [write.model_copy(update={"overwrite": not shared}) for write in writes]
    return PlannedWrites(SessionCatalog(session, "spark_catalog").identity(), writes)


def plan_statement(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    statement: StatementFacts,
    *,
    bind_rows: Callable[[], None] = lambda: None,
) -> ExecutionPlan:
    """Plan a statement, and resolve the transaction of an earlier attempt first.

    The earlier transaction is rolled forward by the plan, or rolled back here.

    Args:
        bind_rows: Makes the rows that the statement reads. It is called if the statement runs.

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
    bind_rows()
    parsed_plan, bind = parse_statement(session, assignment)
    if assignment.expectations:
        return _plan_checked_write(session, assignment, link, statement, parsed_plan, bind)
    ctas = describe_ctas(session, parsed_plan, bind)
    if ctas is None:
        # Only these statements read the setting: SET and RESET must not depend on any.
        if (
            may_create_table(session, parsed_plan)
            and read_atomicity(session, CTAS_ATOMICITY) is Atomicity.REQUIRE
        ):
            raise AtomicityRequired(
                "A CREATE TABLE AS inside BEGIN … END or EXECUTE IMMEDIATE is not atomic, and"
                f" {CTAS_ATOMICITY.key} is 'require'. Submit it as a statement of its own."
            )
        return plan_write(session, assignment, link, statement, parsed_plan, bind)
    return _plan_ctas(ctas, assignment, link, statement)


def _plan_checked_write(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    statement: StatementFacts,
    parsed_plan: Any,
    bind: Binding,
) -> ExecutionPlan:
    """Return the plan of an INSERT whose rows are checked by expectations.

    Raises AtomicityRequired if rows of a failed statement could stay in the table.
    """
    checks = RowChecks(session, assignment.expectations)
    checked = checks.add_to(parsed_plan, bind)
    plan = plan_write(session, assignment, link, statement, checked, bind)
    if plan.hook is None:
        if checks.may_fail:
            raise AtomicityRequired(
                "This write is not atomic: an expectation with `fail` could not take its rows back."
                " Write to a table whose writes are atomic, or use `warn` or `drop`."
            )
        plan = replace(plan, run=lambda: frame_of_plan(session, checked))
    elif plan.hook.commits_natively and checks.may_fail:
        checked = checks.add_to(parsed_plan, bind, raises=True)
        plan = plan_write(session, assignment, link, statement, checked, bind)
    return replace(plan, checks=checks)


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
        run=lambda: empty_frame(session),
        hook=hook,
        atomic=hook.atomic,
        completed_earlier=True,
    )


def _find_replaced_table(ctas: Ctas) -> PlannedWrites | None:
    """Return the replacement of a table of files: rows of other writes would be dropped with it."""
    if not (ctas.replaces and ctas.is_session_catalog):
        return None
    write = WriteDetector(ctas.session).find_replaced(ctas.path)
    if write is None:
        return None
    return PlannedWrites(SessionCatalog(ctas.session, ctas.path.catalog).identity(), [write])


def _plan_ctas(
    ctas: Ctas, assignment: Assignment, link: NodeLink, statement: StatementFacts
) -> ExecutionPlan:
    session = ctas.session
    atomicity = read_atomicity(session, CTAS_ATOMICITY)
    transaction = new_id("tx")
    catalog = None if atomicity is Atomicity.OFF else find_catalog(ctas)
    table = (
        None
        if catalog is None
        else create_two_phase_table(ctas, catalog, transaction, link.bootstrap.epoch)
    )
    if table is not None and table.write_target is None:
        note = f"Nothing was done: {ctas.path.sql_name} already exists."
        return ExecutionPlan(run=lambda: empty_frame(session), note=note, changes_nothing=True)
    # Only now: Spark too refuses a name that exists first.
    trigger = bounded_trigger(session) if ctas.is_streaming else None
    if catalog is None or table is None:
        _check_plain_spark_is_allowed(ctas, atomicity)
        return ExecutionPlan(run=lambda: run_statement(session, assignment), atomic=False)
    write_target = table.write_target
    assert write_target is not None
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
        analysed=ctas.analysed,
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
            f" created atomically. Use a catalog with atomic tables, and set {CTAS_ATOMICITY.key}"
            " to a value other than 'off'."
        )


def _not_atomic_error(ctas: Ctas) -> AtomicityRequired:
    action = "replaced" if ctas.replaces else "created"
    return AtomicityRequired(
        f"Table {ctas.path.sql_name} cannot be {action} atomically, and {CTAS_ATOMICITY.key} is"
        f" 'require'. Use another catalog, or set {CTAS_ATOMICITY.key} to 'auto'."
    )


def _restore_hook(
    session: SparkSession, entry: JournalEntry, link: NodeLink, statement_id: str
) -> TransactionHook:
    """Rebuild the hook of a transaction that an earlier driver began. Raises CatalogError."""
    catalog, table = restore_table(session, entry)
    journal = Journal(link, entry.id, statement_id)
    hook = TransactionHook(
        catalog,
        table,
        journal,
        target=entry.staged.target,
        ignore_if_exists=entry.staged.ignore_if_exists,
        journal_state=entry.state,
    )
    hook.expectation_counts = entry.staged.expectation_counts
    return hook
