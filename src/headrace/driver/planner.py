"""The course that a statement takes: as it is, or as a table in two phases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TableDefinition, TwoPhaseCatalog, TwoPhaseTable
from headrace.driver.ctas.bounded_stream import StreamedTable, bounded_trigger, run_to_end
from headrace.driver.ctas.catalogs import catalog_for, restore_table
from headrace.driver.ctas.detect import Ctas, detect_ctas
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.journal import Journal
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.transaction import CtasHook
from headrace.driver.ctas.within import may_create_table
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.driver.parameters import run_statement
from headrace.errors import AtomicityRequired, CatalogError
from headrace.model.atomicity import KEY as ATOMICITY
from headrace.model.atomicity import Atomicity
from headrace.model.ids import new_id
from headrace.model.messages import Assignment, JournalEntry

_LOG = logging.getLogger("headrace.driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """What is to be run, and what accompanies it."""

    run: Callable[[], DataFrame]
    """Raises as Spark does."""
    hook: CtasHook | None = None
    atomic: bool | None = None
    """Of a CTAS that runs: whether its table appears whole."""
    note: str | None = None
    settled: bool = False
    """Whether another driver has done it already, but for the last step."""

    @property
    def may_be_refused(self) -> bool:
        """Whether somebody can still say no when it has run: its table is not visible then."""
        return not (self.settled or (self.hook is not None and self.hook.commits_natively))


def plan_statement(
    session: SparkSession, assignment: Assignment, link: NodeLink, statement: StatementFacts
) -> ExecutionPlan:
    """Raises as Spark does for what it finds wrong in a CTAS, and what its catalog raises.

    What a driver before this one has left of the statement's table is finished, or removed.
    """
    if assignment.is_query:
        return ExecutionPlan(run=lambda: run_statement(session, assignment))
    if assignment.transaction is not None:
        left = _left(session, assignment.transaction, link, assignment.statement_id)
        if left.is_done():
            return ExecutionPlan(
                run=lambda: empty_frame(session), hook=left, atomic=left.atomic, settled=True
            )
        left.on_cancelled(statement)
    ctas = detect_ctas(session, assignment)
    if ctas is None:
        if _mode(session) is Atomicity.REQUIRE and may_create_table(session, assignment):
            raise AtomicityRequired(
                "A CREATE TABLE AS within BEGIN … END or by EXECUTE IMMEDIATE is not atomic, and"
                f" {ATOMICITY} is 'require': submit it as a statement of its own."
            )
        return ExecutionPlan(run=lambda: run_statement(session, assignment))
    return _ctas_course(ctas, assignment, link)


def _mode(session: SparkSession) -> Atomicity:
    return Atomicity.of(str(session.conf.get(ATOMICITY, Atomicity.AUTO)))


def _ctas_course(ctas: Ctas, assignment: Assignment, link: NodeLink) -> ExecutionPlan:
    session = ctas.session
    mode = _mode(session)
    trigger = bounded_trigger(session) if ctas.is_streaming else None
    transaction = new_id("tx")
    catalog = None if mode is Atomicity.OFF else catalog_for(ctas)
    table = _table(ctas, catalog, transaction, link.bootstrap.epoch) if catalog else None
    if catalog is None or table is None:
        _check_plain(ctas, mode)
        return ExecutionPlan(run=lambda: run_statement(session, assignment), atomic=False)
    destination = table.destination
    if destination is None:
        note = f"Nothing was done: {ctas.path.quoted()} exists already."
        return ExecutionPlan(run=lambda: empty_frame(session), note=note)
    if mode is Atomicity.REQUIRE and not table.atomic:
        raise _not_atomic(ctas)
    place = f"{link.bootstrap.results.rstrip('/')}/streams/{transaction}"
    if trigger is not None:
        table = StreamedTable(table, place, HadoopFiles(session))

    def run() -> DataFrame:
        if trigger is None:
            return ctas.run_into(destination)
        rows = run_to_end(ctas.query, trigger, place, assignment.statement_id)
        return ctas.run_into(destination, rows)

    journal = Journal(
        link, transaction, assignment.statement_id, when_busy=lambda: recover(session, link)
    )
    hook = CtasHook(catalog, table, journal, target=ctas.path.guarded)
    return ExecutionPlan(
        run=lambda: _run(session, run, hook, assignment.statement_id),
        hook=hook,
        atomic=table.atomic,
    )


def _table(
    ctas: Ctas, catalog: TwoPhaseCatalog, transaction: str, epoch: int
) -> TwoPhaseTable | None:
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


def _check_plain(ctas: Ctas, mode: Atomicity) -> None:
    """Raises AtomicityRequired and CatalogError for what may not, or cannot, run as plain Spark."""
    if mode is Atomicity.REQUIRE:
        raise _not_atomic(ctas)
    if ctas.is_streaming:
        raise CatalogError(
            f"{ctas.path.quoted()} cannot be created from a stream: that needs a catalog whose"
            f" tables are created atomically, and {ATOMICITY} that is not 'off'."
        )


def _not_atomic(ctas: Ctas) -> AtomicityRequired:
    what = "replaced" if ctas.replaces else "created"
    return AtomicityRequired(
        f"{ctas.path.quoted()} cannot be {what} atomically, and {ATOMICITY} is 'require'."
    )


def _run(
    session: SparkSession, run: Callable[[], DataFrame], hook: CtasHook, tag: str
) -> DataFrame:
    """A catalog that publishes by itself may have done so before it was answered by an error.

    Raises TableAlreadyExists for what such a catalog finds at the last moment.
    """
    try:
        return run()
    except (PySparkException, Py4JError) as error:
        # Who looks must not be cancelled, as the statement may have been.
        session.sparkContext.removeJobTag(tag)
        if not hook.commits_natively:
            raise
        if hook.is_done():
            _LOG.warning("statement %s: its table is there, in spite of: %s", tag, error)
            return empty_frame(session)
        refusal = hook.refusal(error)
        if refusal is not None:
            raise refusal from error
        raise


def _left(session: SparkSession, left: JournalEntry, link: NodeLink, statement_id: str) -> CtasHook:
    """The table that a driver before this one has left. Raises CatalogError."""
    catalog, table = restore_table(session, left.staged)
    journal = Journal(link, left.id, statement_id)
    return CtasHook(catalog, table, journal, target=left.staged.target, left_as=left.state)


def empty_frame(session: SparkSession) -> DataFrame:
    """The result of a CTAS: no columns, no rows."""
    return session.sql("SELECT 1 WHERE false").select()
