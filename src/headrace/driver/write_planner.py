"""Plans a statement that changes the rows of a table: in two phases, or as plain Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import WriteDefinition
from headrace.driver.ctas.catalogs import find_write_catalog
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.transaction import Journal
from headrace.driver.execution_plan import ExecutionPlan, plan_change, read_atomicity
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.driver.parameters import Binding, frame_of_plan, run_statement
from headrace.driver.writes.detect import WriteDetector
from headrace.driver.writes.dml import RowChange, describe_row_change, may_write_rows, writes_rows
from headrace.driver.writes.locks import PlannedWrites
from headrace.errors import AtomicityRequired
from headrace.model.messages import Assignment
from headrace.model.session_options import WRITES_ATOMICITY, Atomicity
from headrace.model.text import new_id


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
    atomicity = Atomicity.AUTO
    if may_write_rows(parsed_plan):
        atomicity = read_atomicity(session, WRITES_ATOMICITY)
    change = None if atomicity is Atomicity.OFF else describe_row_change(session, parsed_plan, bind)
    catalog = None if change is None else find_write_catalog(session, change)
    write, transaction = None, new_id("tx")
    if change is not None and catalog is not None:
        definition = _define_write(session, assignment, link, change, transaction)
        write = catalog.create_two_phase_write(change.path, definition)
    if change is None or catalog is None or write is None:
        return _plan_plain_write(session, assignment, link, parsed_plan, atomicity)
    journal = Journal(
        link, transaction, assignment.statement_id, on_busy=lambda: recover(session, link)
    )
    shares_target = write.shares_target
    return plan_change(
        session,
        write.run,
        catalog,
        write,
        journal,
        target=change.path.lock_key,
        statement=statement,
        find_writes=lambda: _find_writes(session, parsed_plan, shared=shares_target),
    )


def _plan_plain_write(
    session: SparkSession,
    assignment: Assignment,
    link: NodeLink,
    parsed_plan: Any,
    atomicity: Atomicity,
) -> ExecutionPlan:
    """Return the plan of a statement that Spark runs unchanged. Raises AtomicityRequired."""
    if atomicity is Atomicity.REQUIRE and may_write_rows(parsed_plan):
        raise AtomicityRequired(
            f"This write is not atomic, and {WRITES_ATOMICITY.key} is 'require'. Set it to 'auto'"
            " to run the statement."
        )
    return ExecutionPlan(
        run=lambda: run_statement(session, assignment),
        atomic=False if writes_rows(parsed_plan) else None,
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
    # The statements of a session that change rows run one after another, unless each has a Spark
    # session of its own.
    is_ordered = assignment.ordinal is not None and not assignment.isolated
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
