"""Plans of CREATE and REFRESH MATERIALIZED VIEW: each writes a generation in two phases."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas import Cancelled, TablePath, TwoPhaseCatalog
from headrace.driver.ctas.base import TwoPhaseTable
from headrace.driver.ctas.catalogs import find_catalog
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.transaction import Journal
from headrace.driver.ctas.view_switch import (
    SwitchedTable,
    ViewSwitch,
    path_of,
    read_scope,
    set_scope,
)
from headrace.driver.execution_plan import ExecutionPlan, plan_change
from headrace.driver.failures import TEMPORARY_REFERENCE, KnownFailure
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.driver.planner import create_two_phase_table, resume_transaction
from headrace.driver.spark_version.ctas_plan import Ctas, build_ctas
from headrace.driver.spark_version.errors import find_position
from headrace.driver.spark_version.observed_rows import keep_observations
from headrace.driver.spark_version.plans import find_temporary_views
from headrace.driver.streams.sources import register_streams
from headrace.driver.views.intents import carry_out_intents
from headrace.driver.writes.expectations import CheckedColumns, RowChecks
from headrace.errors import InvalidExpectation, InvalidMaterializedView, TableAlreadyExists
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.materialized_views import (
    CreateMaterializedView,
    blank_before_condition,
    blank_before_query,
)
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.text import position_at
from headrace.model.ids import new_id
from headrace.model.materialized_view import RowStorage, ViewRows, generation_name
from headrace.model.messages import (
    Assignment,
    Generation,
    NewView,
)
from headrace.model.statement import CREATE_VIEW, REFRESH_VIEW

VIEW_STATEMENTS = frozenset({CREATE_VIEW, REFRESH_VIEW})
_BUSY_SECONDS = 1.0
_DEFAULT_FORMAT = "spark.sql.sources.default"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ViewToWrite:
    """A view whose next generation the statement writes."""

    command: CreateMaterializedView
    query: str
    """The query, at its position in the text of the CREATE MATERIALIZED VIEW."""
    rows: ViewRows
    catalog: TwoPhaseCatalog
    is_new: bool

    @property
    def path(self) -> TablePath:
        return path_of(self.rows)


class ViewPlanner:
    """Plans one statement, in a session of its own that is like that of the statement."""

    def __init__(
        self,
        session: SparkSession,
        assignment: Assignment,
        link: NodeLink,
        cancelling: threading.Event,
    ) -> None:
        """Create a planner.

        Args:
            cancelling: Set when the statement is to be cancelled.
        """
        self._session = session
        self._assignment = assignment
        self._link = link
        self._cancelling = cancelling

    def plan(self, statement: StatementFacts) -> ExecutionPlan:
        """Return the plan of the statement.

        Raises:
            InvalidMaterializedView: The query or the catalog does not allow the view.
            InvalidExpectation: A condition is not a boolean expression over the columns.
            TableAlreadyExists: The name belongs to another table or view.
            KnownFailure: The node refuses the view.
            Cancelled: The statement was cancelled.
            PySparkException: Spark rejects the query.
        """
        resumed = resume_transaction(self._session, self._assignment, self._link, statement)
        if resumed is not None:
            return resumed
        carry_out_intents(self._session, self._link)
        view = self._find_view() if self._assignment.view is not None else self._resolve_new()
        return self._plan_generation(view, statement)

    def _resolve_new(self) -> _ViewToWrite:
        """Return the view that the statement creates, after all checks of its query."""
        session, text = self._session, self._assignment.text
        command = parse(text).command
        if not isinstance(command, CreateMaterializedView):
            raise InvalidMaterializedView("The materialized view has been dropped.")
        query = blank_before_query(text, command)
        defined = register_streams(session, self._assignment.definitions)
        name = qualified_name_to_sql(command.name)
        ctas = build_ctas(session, f"CREATE TABLE {name}{self._using(command)}", query)
        catalog = find_catalog(ctas)
        _check_query(ctas, command, defined)
        _check_conditions(ctas.query, command, text)
        if catalog is None or not _has_views(catalog, command):
            raise InvalidMaterializedView(
                f"The catalog {ctas.path.catalog} cannot hold this materialized view."
                " docs/guides/materialized-views.md lists the catalogs that can."
            )
        is_session = isinstance(catalog, SessionCatalog)
        storage = RowStorage.GENERATIONS if is_session else RowStorage.REPLACEMENT
        rows = ViewRows(path=ctas.path.parts, storage=storage, scope=read_scope(session))
        return _ViewToWrite(command=command, query=query, rows=rows, catalog=catalog, is_new=True)

    def _find_view(self) -> _ViewToWrite:
        """Return the view that the statement refreshes."""
        view = self._assignment.view
        assert view is not None
        command = parse(view.text).command
        assert isinstance(command, CreateMaterializedView)
        set_scope(self._session, view.rows.scope)
        query = blank_before_query(view.text, command)
        name = path_of(view.rows).sql_name
        ctas = build_ctas(self._session, f"CREATE TABLE {name}{self._using(command)}", query)
        catalog = find_catalog(ctas)
        if catalog is None or catalog.identity() != view.identity:
            raise InvalidMaterializedView(
                f"The catalog {ctas.path.catalog} of this session is another one than the catalog"
                f" that has the materialized view {name}. Submit the statement in a session with"
                " the metastore or the catalog of the view."
            )
        _check_query(ctas, command, [])
        return _ViewToWrite(
            command=command, query=query, rows=view.rows, catalog=catalog, is_new=False
        )

    def _plan_generation(self, view: _ViewToWrite, statement: StatementFacts) -> ExecutionPlan:
        if view.is_new:
            _check_name_is_free(view)
        generation = self._begin_generation(view)
        assert generation.view is not None
        if not view.is_new:
            _check_name_is_own(view, generation.view)
        target, verb = view.path, "CREATE TABLE"
        if view.rows.storage is RowStorage.GENERATIONS:
            target = target.sibling(generation_name(target.table, generation.number))
        elif not view.is_new:
            verb = "CREATE OR REPLACE TABLE"
        owner = view.catalog.describe_owner(generation.view)
        create = f"{verb} {target.sql_name}{self._using(view.command)} {owner}"
        ctas = build_ctas(self._session, create, view.query)
        transaction = new_id("tx")
        table = create_two_phase_table(ctas, view.catalog, transaction, self._link.bootstrap.epoch)
        if table is None or not table.atomic or table.write_target is None:
            raise InvalidMaterializedView(
                f"The catalog {target.catalog} cannot write {target.sql_name} atomically."
            )
        write_target = table.write_target
        if view.rows.storage is RowStorage.GENERATIONS:
            switch = ViewSwitch(self._session, view.path, generation.view)
            table = SwitchedTable(table, switch, target, self._session)
        journal = Journal(
            self._link,
            transaction,
            self._assignment.statement_id,
            on_busy=lambda: recover(self._session, self._link),
        )
        expected = view.command.expectations
        # The query of a stream counts the rows, and this statement writes none.
        checks = RowChecks(self._session, expected) if expected and not ctas.is_streaming else None
        if checks is not None:
            keep_observations(self._session)
        plan = plan_change(
            self._session,
            lambda: ctas.write_to(write_target, self._rows_to_write(ctas, checks, table)),
            view.catalog,
            table,
            journal,
            target=target.lock_key,
            statement=statement,
            analysed=ctas.analysed,
            written=view.path,
        )
        return replace(plan, checks=checks)

    def _begin_generation(self, view: _ViewToWrite) -> Generation:
        new = None
        if view.is_new:
            new = NewView(identity=view.catalog.identity(), rows=view.rows)
        while True:
            generation = self._link.begin_generation(self._assignment.statement_id, new)
            if generation.failure is not None:
                raise KnownFailure(generation.failure)
            if generation.view is not None:
                return generation
            if not generation.busy or self._cancelling.is_set():
                raise Cancelled
            # The driver of the earlier generation may be lost.
            recover(self._session, self._link)
            self._cancelling.wait(_BUSY_SECONDS)

    def _rows_to_write(
        self, ctas: Ctas, checks: RowChecks | None, table: TwoPhaseTable
    ) -> DataFrame | None:
        """Return the rows to write: an empty frame for a stream, or the rows that are not dropped.

        Return None for a view without expectations: Spark writes the rows of the query itself.
        """
        if ctas.is_streaming:
            return self._session.createDataFrame([], ctas.query.schema)
        if checks is None:
            return None
        # A catalog that commits natively publishes the rows before they can be counted.
        raises = checks.may_fail and table.commits_natively
        return checks.count_and_drop(ctas.read_query(), raises=raises)

    def _using(self, command: CreateMaterializedView) -> str:
        """Return the USING clause. Without one, Spark's own catalog could create a Hive table."""
        format_ = command.format
        if format_ is None and self._is_session_catalog(command):
            format_ = str(self._session.conf.get(_DEFAULT_FORMAT))
        return "" if format_ is None else f" USING {quote_name(format_)}"

    def _is_session_catalog(self, command: CreateMaterializedView) -> bool:
        scope = read_scope(self._session)
        first = command.name[0]
        if len(command.name) == 1:
            return scope.catalog == "spark_catalog"
        is_catalog = self._session.conf.get(f"spark.sql.catalog.{first}", None) is not None
        if is_catalog or first == "spark_catalog":
            return first == "spark_catalog"
        return scope.catalog == "spark_catalog"


def _check_query(ctas: Ctas, command: CreateMaterializedView, defined: list[str]) -> None:
    """Raise InvalidMaterializedView unless a view can be kept fresh with its query."""
    name = ".".join(command.name)
    views = find_temporary_views(ctas.query, defined)
    if views:
        raise InvalidMaterializedView(
            f"The materialized view {name} reads the temporary view {views[0]}, which only this"
            " session has. Read a table or a permanent view instead."
        ).with_condition(*TEMPORARY_REFERENCE)
    if ctas.is_streaming and not command.is_auto_refreshed:
        raise InvalidMaterializedView(
            f"The materialized view {name} reads a stream, so that only a streaming query can"
            " refresh it. Add WITH (auto_refresh = true)."
        )
    if not ctas.is_streaming and command.is_auto_refreshed and command.refresh_interval is None:
        raise InvalidMaterializedView(
            f"The materialized view {name} reads no stream, so that nothing says when to refresh"
            " it. Add refresh_interval, for example WITH (auto_refresh = true, refresh_interval ="
            " '10 MINUTES'), or read a stream: FROM STREAM t."
        )


def _check_conditions(rows: DataFrame, command: CreateMaterializedView, text: str) -> None:
    """Raise InvalidExpectation, with its position, for a condition that the rows do not allow."""
    for each in command.constraints:
        condition = blank_before_condition(text, each)
        placed = each.expectation.model_copy(update={"condition": condition})
        try:
            CheckedColumns([placed]).add_to(rows, raises=False)
        except InvalidExpectation as error:
            cause = error.__cause__
            reported = find_position(cause, text) if isinstance(cause, PySparkException) else None
            error.position = reported or position_at(text, each.condition_at)
            raise


def _has_views(catalog: TwoPhaseCatalog, command: CreateMaterializedView) -> bool:
    if catalog.refreshes_views:
        return True
    can_name_owner = type(catalog).find_view_id is not TwoPhaseCatalog.find_view_id
    return can_name_owner and not command.is_auto_refreshed


def _check_name_is_free(view: _ViewToWrite) -> None:
    """Raise TableAlreadyExists if the name of a new view is taken, in Spark's own catalog.

    The other catalogs check the name of the table that they create.
    """
    if isinstance(view.catalog, SessionCatalog):
        kind = view.catalog.kind_of(view.path)
        if kind is not None:
            raise TableAlreadyExists(f"{view.path.sql_name} already exists: it is a {kind}.")


def _check_name_is_own(view: _ViewToWrite, view_id: str) -> None:
    """Raise TableAlreadyExists if the table to replace does not belong to the view."""
    if view.rows.storage is RowStorage.GENERATIONS:
        return
    if view.catalog.find_view_id(view.path) != view_id:
        raise TableAlreadyExists(
            f"{view.path.sql_name} does not belong to the materialized view any more. Drop the"
            " materialized view and create it again."
        )
