"""The course that a statement takes: as it is, or as a table in two phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.catalogs import catalog_for, catalog_of
from headrace.driver.ctas.contract import TableDefinition
from headrace.driver.ctas.ctas_hook import CtasHook
from headrace.driver.ctas.find import Ctas, find
from headrace.driver.ctas.hooks import StatementFacts
from headrace.driver.ctas.journal import Journal
from headrace.driver.ctas.recovery import recover
from headrace.driver.link import Link
from headrace.driver.parameters import asked
from headrace.errors import AtomicityRequired
from headrace.model.atomicity import KEY, Atomicity
from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Journalled, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is to be run, and what accompanies it."""

    run: Callable[[], DataFrame]
    """Raises as Spark does."""
    hook: CtasHook | None = None
    atomic: bool | None = None
    """Of a CTAS that runs: whether its table appears whole."""
    note: str | None = None


def course_of(session: SparkSession, work: Work, link: Link, statement: StatementFacts) -> Course:
    """Raises as Spark does for what it finds wrong in a CTAS, and what its catalog raises.

    What a driver before this one has left of the statement's table is finished, or removed.
    """
    if work.is_query:
        return Course(run=lambda: asked(session, work))
    if work.transaction is not None:
        left = _left(session, work.transaction, link, work.statement_id)
        if work.transaction.state is TransactionState.COMMITTING:
            return Course(run=lambda: _nothing(session), hook=left, atomic=True)
        left.on_cancelled(statement)
    ctas = find(session, work)
    if ctas is None:
        return Course(run=lambda: asked(session, work))
    return _ctas_course(ctas, work, link)


def _ctas_course(ctas: Ctas, work: Work, link: Link) -> Course:
    session = ctas.session
    mode = Atomicity.of(str(session.conf.get(KEY, Atomicity.AUTO)))
    plain = Course(run=lambda: asked(session, work), atomic=False)
    if mode is Atomicity.OFF:
        return plain
    transaction = new_id("tx")
    catalog = catalog_for(ctas)
    table = None
    if catalog is not None:
        table = catalog.create_two_phase_table(
            ctas.path,
            TableDefinition(
                transaction=transaction,
                epoch=link.bootstrap.epoch,
                provider=ctas.provider,
                location=ctas.location,
                partitioned=ctas.partitioned,
                plan=ctas.analysed,
            ),
            ignore_if_exists=ctas.ignore_if_exists,
            is_streaming=ctas.is_streaming,
        )
    if catalog is None or table is None:
        if mode is Atomicity.REQUIRE:
            raise AtomicityRequired(
                f"{ctas.path.quoted()} cannot be created atomically, and {KEY} is {mode.value!r}."
            )
        return plain
    destination = table.destination
    if destination is None:
        note = f"Nothing was done: {ctas.path.quoted()} exists already."
        return Course(run=lambda: _nothing(session), note=note)
    journal = Journal(
        link, transaction, work.statement_id, when_busy=lambda: recover(session, link)
    )
    hook = CtasHook(catalog, table, journal, target=ctas.path.guarded)
    return Course(run=lambda: ctas.run_into(destination), hook=hook, atomic=True)


def _left(session: SparkSession, left: Journalled, link: Link, statement_id: str) -> CtasHook:
    """The table that a driver before this one has left. Raises CatalogError."""
    catalog = catalog_of(session, left.staged.kind, left.staged.catalog)
    table = catalog.restore(left.staged.record)
    journal = Journal(link, left.id, statement_id)
    return CtasHook(catalog, table, journal, target=left.staged.target, left_as=left.state)


def _nothing(session: SparkSession) -> DataFrame:
    """The result of a CTAS: no columns, no rows."""
    return session.sql("SELECT 1 WHERE false").select()
