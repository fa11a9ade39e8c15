"""Tables of generations of a materialized view, and the catalog view that selects from one of them.

One call of the catalog switches the view from one table to the next. A reader therefore sees the
rows of one generation, never a gap and never a part.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pydantic import BaseModel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import JournalledTable, TwoPhaseTable
from headrace.driver.spark_version.bridge import activate
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.session_state import RestorableState, restore_namespace
from headrace.errors import CatalogError, StatementFailed, TableAlreadyExists
from headrace.grammar.materialized_views import CreateMaterializedView, blank_before_query
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.materialized_view import (
    MATERIALIZED_VIEW_PROPERTY,
    NameScope,
    SwitchedView,
    ViewRows,
    generation_name,
)


class ViewSwitch:
    """The catalog view of a materialized view, in Spark's own catalog."""

    def __init__(self, session: SparkSession, view: TablePath, view_id: str) -> None:
        self.path = view
        self.id = view_id
        self._session = session
        self._catalog = V1Catalog(session)

    def check(self) -> None:
        """Raise TableAlreadyExists if the name belongs to another table or view."""
        self._find_own()

    def selects_from(self, table: TablePath) -> bool:
        """Return whether the view selects from this table."""
        try:
            if not self._find_own():
                return False
        except TableAlreadyExists:
            return False
        # The catalog lists its tables in lower case.
        text = self._catalog.view_text(self.path)
        return text is not None and text.lower() == _select_all(table).lower()

    def switch_to(self, table: TablePath) -> None:
        """Let the view select from a table, and create the view if it does not exist.

        Raises:
            TableAlreadyExists: Another table or view has the name.
        """
        name, query = self.path.sql_name, _select_all(table)
        if self._find_own():
            self._session.sql(f"ALTER VIEW {name} AS {query}")
            return
        property_ = f"{quote_string(MATERIALIZED_VIEW_PROPERTY)} = {quote_string(self.id)}"
        try:
            self._session.sql(f"CREATE VIEW {name} TBLPROPERTIES ({property_}) AS {query}")
        except (PySparkException, Py4JError):
            self._find_own()
            raise

    def _find_own(self) -> bool:
        """Return whether the view exists. Raise TableAlreadyExists if the name is another's."""
        kind = self._catalog.kind_of(self.path)
        if kind is None:
            return False
        properties = self._catalog.properties(self.path)
        if kind != "view" or properties.get(MATERIALIZED_VIEW_PROPERTY) != self.id:
            raise TableAlreadyExists(
                f"{self.path.sql_name} already exists: it is a {kind} that does not belong to the"
                " materialized view."
            )
        return True


class SwitchedTable(TwoPhaseTable):
    """The table of one generation, whose commit switches the view to it."""

    def __init__(
        self, table: TwoPhaseTable, switch: ViewSwitch, path: TablePath, session: SparkSession
    ) -> None:
        """Create the table.

        Args:
            table: The two-phase table itself.
            path: Its path.
        """
        self._table = table
        self._switch = switch
        self._path = path
        self._session = session
        self.write_target = table.write_target
        self.location = table.location
        self.commits_natively = table.commits_natively

    def begin(self) -> None:
        self._switch.check()
        self._table.begin()

    def finish_write(self) -> None:
        self._table.finish_write()

    def is_published(self) -> bool:
        return self._table.is_published() and self._switch.selects_from(self._path)

    def explain_commit_refusal(self, error: Exception) -> StatementFailed | None:
        return self._table.explain_commit_refusal(error)

    def commit(self) -> None:
        self._switch.check()
        self._table.commit()
        self._switch.switch_to(self._path)

    def abort(self) -> None:
        if not self._table.is_published():
            self._table.abort()
        elif self.is_published():
            raise CatalogError(
                f"The view {self._switch.path.sql_name} already selects from {self._path.sql_name},"
                " which was not removed."
            )
        else:
            # No reader has seen the table: the view could not be switched to it.
            self._session.sql(f"DROP TABLE IF EXISTS {self._path.sql_name}")

    def to_record(self) -> dict[str, Any]:
        view = SwitchRecord(view=self._switch.path, view_id=self._switch.id)
        return view.model_copy(update={"table": self._table.to_record()}).model_dump(mode="json")


class SwitchRecord(BaseModel):
    """The record of a table of a generation, around the record of the table itself."""

    view: TablePath
    view_id: str
    table: dict[str, Any] = {}


def split_switch_record(record: dict[str, Any]) -> tuple[SwitchRecord | None, dict[str, Any]]:
    """Return the record of the switch, and the record of the table itself.

    The first is None if the table belongs to no materialized view. Raises ValidationError for a
    record that no `SwitchedTable` has written.
    """
    if "view_id" not in record:
        return None, record
    switch = SwitchRecord.model_validate(record)
    return switch, switch.table


def restore_switch(
    session: SparkSession,
    record: SwitchRecord,
    table: TwoPhaseTable,
    journalled: JournalledTable,
    catalog: str,
    written: SwitchedView | None,
) -> SwitchedTable:
    """Rebuild the table of a generation that another driver began.

    Args:
        written: The view that the statement of the transaction writes, as the node knows it.

    Raises:
        CatalogError: The record contradicts the journal: it names another view than the node, or
            the table is no generation of the view.
    """
    view = record.view.in_catalog(catalog)
    if (
        written is None
        or written.id != record.view_id
        or written.path[1:] != list(record.view.parts[1:])
    ):
        raise journalled.refuse(f"it names the view {view.sql_name}, which its statement does not")
    number = journalled.target.rpartition("_")[2].rstrip("`")
    if not number.isdecimal():
        raise journalled.refuse("its table is no generation of a materialized view")
    path = view.sibling(generation_name(view.table, int(number)))
    if path.lock_key != journalled.target:
        raise journalled.refuse(f"it names the view {view.sql_name}")
    return SwitchedTable(table, ViewSwitch(session, view, record.view_id), path, session)


def _select_all(table: TablePath) -> str:
    # Without the name that this session has for its catalog.
    name = ".".join(quote_name(part) for part in table.parts[1:])
    return f"SELECT * FROM {name}"  # noqa: S608 - quoted names


def read_scope(session: SparkSession) -> NameScope:
    """Return the current catalog and namespace of a session."""
    catalog, current = RestorableState(session).capture_namespace()
    return NameScope(catalog=catalog, namespace=current)


def set_scope(session: SparkSession, scope: NameScope) -> None:
    """Set the current catalog and namespace of a session. Raises what Spark raises."""
    activate(session)
    restore_namespace(session, scope.catalog, scope.namespace)


def open_query(session: SparkSession, text: str, command: CreateMaterializedView) -> DataFrame:
    """Return the rows of the query of a view. Raises what Spark raises."""
    return session.sql(blank_before_query(text, command))


def path_of(rows: ViewRows) -> TablePath:
    """Return the path of a view."""
    catalog, *levels, name = rows.path
    return TablePath(catalog, tuple(levels), name)
