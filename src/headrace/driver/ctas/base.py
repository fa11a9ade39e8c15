"""Base classes for catalogs that create tables in two phases; see docs/guides/atomic-tables.md.

A package can install an implementation for its own catalog with an entry point in the group
`headrace.catalogs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.ctas_plan import WriteTarget
from headrace.errors import CatalogError, StatementFailed
from headrace.grammar.quoting import quote_string
from headrace.model.materialized_view import MATERIALIZED_VIEW_PROPERTY
from headrace.model.transaction import TableWrite

TRANSACTION_PROPERTY = "headrace.txn"
"""Table property with the id of the transaction that created the table."""
STAGING_PREFIX = "headrace_staged_"
"""Prefix of the names of staged tables and directories."""


def make_staging_name(transaction: str, epoch: int) -> str:
    """Return the name of staged objects, unique to a transaction and the driver that began it."""
    return f"{STAGING_PREFIX}{transaction.removeprefix('tx_')}_{epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """The table that a CTAS defines, after Spark's analysis has accepted the statement."""

    transaction: str
    """Id of the transaction. The names of staged objects contain it."""
    epoch: int
    """Epoch of the driver. The names of staged objects contain it."""
    provider: str | None
    """Format of the USING clause."""
    location: str | None
    """Path of the LOCATION clause."""
    properties: dict[str, str]
    """Table properties of the TBLPROPERTIES clause."""
    replaces: bool
    """True for `CREATE OR REPLACE TABLE` and `REPLACE TABLE`."""
    must_exist: bool
    """True for `REPLACE TABLE` without `CREATE OR`."""
    plan: Any
    """Spark's analysed plan, a JVM object."""

    @property
    def staging_name(self) -> str:
        """Table name that is unique to this transaction and driver."""
        return make_staging_name(self.transaction, self.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDefinition:
    """The rows that a statement writes to an existing table, after Spark's analysis."""

    transaction: str
    """Id of the transaction. The names of staged objects contain it."""
    epoch: int
    """Epoch of the driver. The names of staged objects contain it."""
    plan: Any
    """Spark's analysed command, a JVM object."""
    run: Callable[[], DataFrame]
    """Runs the command as plain Spark. Raises the errors of Spark."""
    writer: str
    """Writer whose commits have increasing versions, for tables that compare them."""
    version: int
    """Version of this statement, the same in every attempt."""

    @property
    def staging_name(self) -> str:
        """Name of the staged rows, unique to this transaction and driver."""
        return make_staging_name(self.transaction, self.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalledTable:
    """The journal of a table that another driver began.

    The record is a claim of that driver, in which users' code ran. Names and places of staged
    objects therefore follow from the transaction, and the target must be the journalled one.
    """

    transaction: str
    epoch: int
    """Epoch of the driver that began the table."""
    target: str
    """Lock key of the target."""
    location: str | None
    """URI of the user's LOCATION, if there is one."""
    record: dict[str, Any]

    @property
    def staging_name(self) -> str:
        """See `make_staging_name`."""
        return make_staging_name(self.transaction, self.epoch)

    def check_target(self, path: TablePath, catalog: str) -> TablePath:
        """Return the target under the name that its catalog has in this session.

        Raises:
            CatalogError: the record names another target than the journal.
        """
        if path.lock_key != self.target:
            raise self.refuse(f"its target is {path.lock_key}, and the journal names {self.target}")
        return path.in_catalog(catalog)

    def refuse(self, reason: str) -> CatalogError:
        """Return the error for a record that contradicts the journal."""
        return CatalogError(
            f"The record of transaction {self.transaction} is not trusted, because {reason}."
            " Nothing was changed. Remove the staged table by hand."
        )


class TwoPhaseChange(ABC):
    """A change of one table in two phases: stage it, then commit or abort.

    The hooks of the statement call these methods. If the driver dies, another driver rebuilds the
    change from `to_record` with `TwoPhaseCatalog.restore` and continues. `commit` and `abort`
    therefore have to work again after an interruption at any point.
    """

    atomic: bool = True
    """Whether readers see no intermediate state.

    Intermediate states are an incomplete table and, in a replacement, a missing table.
    """
    note: str | None = None
    """A remark for the user on a success, for example what readers saw of a table that is not
    atomic."""
    location: str | None = None
    """URI of the user's LOCATION, if the commit moves files there.

    The journal never lets two transactions publish in the same location at once.
    """
    commits_natively: bool = False
    """Whether the catalog itself publishes the table in one step at the end of the write.

    A cancel can arrive before or after that step. `is_published` then decides the outcome.
    """
    shares_target: bool = False
    """Whether other transactions may commit to the same table at the same time."""
    rows_written: int | None = None
    """Number of rows, if the change knows it from the end of the write on."""

    @abstractmethod
    def begin(self) -> None:
        """Prepare the write, after the journal entry `prepared`."""

    def finish_write(self) -> None:  # noqa: B027 - most implementations have nothing to do
        """Collect what the commit needs, when all rows are written and before the journal entry."""

    @abstractmethod
    def is_published(self) -> bool:
        """Return whether this transaction has published its change in the target."""

    @abstractmethod
    def commit(self) -> None:
        """Publish the complete change in the target.

        Raises:
            TableAlreadyExists, LocationNotEmpty, CatalogError: the change was not published and
                cannot be. Tables and files of others are unchanged, and the caller aborts.
            Exception: for any other error the caller calls `commit` again.
        """

    def explain_commit_refusal(self, error: Exception) -> StatementFailed | None:  # noqa: ARG002 - for overrides
        """Translate an error of the write into the reason why the catalog refused to commit.

        Returns:
            The error for the user, or None if the error has another cause, e.g. the query.
        """
        return None

    @abstractmethod
    def abort(self) -> None:
        """Remove everything that this transaction staged, and nothing else."""

    @abstractmethod
    def to_record(self) -> dict[str, Any]:
        """Return the JSON object from which another driver can rebuild this change."""


class TwoPhaseTable(TwoPhaseChange):
    """A table that a CTAS creates in two phases."""

    write_target: WriteTarget | None
    """Table for the rows. None if the table already exists and IF NOT EXISTS was given."""


class TwoPhaseWrite(TwoPhaseChange):
    """Rows that a statement adds to an existing table, or puts in the place of other rows."""

    locked_files: TableWrite | None = None
    """The files for which the statement needs the write lock.

    None: the driver looks for written tables of files in the parsed statement.
    """

    @abstractmethod
    def run(self) -> DataFrame:
        """Write the rows to a place that readers skip. Raises the errors of Spark.

        Only the driver that has begun the write calls this method.
        """


class TwoPhaseCatalog(ABC):
    """Creates two-phase tables in one catalog of a Spark session."""

    kind: ClassVar[str]
    """Name of the implementation in the journal."""
    needs_purge: ClassVar[bool] = False
    """Whether DROP TABLE deletes the files of a table only with PURGE."""
    refreshes_views: ClassVar[bool] = False
    """Whether a streaming query can refresh the materialized views of the catalog."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self.session = session
        self.catalog = catalog

    @abstractmethod
    def identity(self) -> str:
        """Return a text that is equal for two catalogs exactly if they hold the same tables.

        Every driver calls this method for each of its catalogs at start. An implementation
        therefore reads the configuration only, and connects to nothing. The text contains no
        secret.
        """

    @abstractmethod
    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,
    ) -> TwoPhaseTable | None:
        """Return a table that is ready to begin. This method changes nothing in the catalog.

        Args:
            is_streaming: Whether the rows come from a bounded stream. They are written in one
                step when the stream has ended. A catalog may refuse such tables.

        Returns:
            None if this catalog cannot create the table in two phases.

        Raises:
            DatabaseNotFound, TableNotFound, LocationNotEmpty, CatalogError: the table cannot be
                created.
            TableAlreadyExists: the name exists and `ignore_if_exists` is False.
        """

    def create_two_phase_write(
        self,
        path: TablePath,  # noqa: ARG002 - for overrides
        write: WriteDefinition,  # noqa: ARG002 - for overrides
    ) -> TwoPhaseWrite | None:
        """Return a write to an existing table that is ready to begin. This method changes nothing.

        Returns:
            None if this catalog cannot write to the table in two phases.

        Raises:
            CatalogError: the table cannot be written to.
        """
        return None

    def find_view_id(self, path: TablePath) -> str | None:  # noqa: ARG002 - for overrides
        """Return the id of the materialized view that a table or view belongs to.

        Returns:
            None if the name is free, if the relation belongs to no materialized view, or if the
            catalog cannot keep the id. Such a catalog has no materialized views.
        """
        return None

    def describe_owner(self, view_id: str) -> str:
        """Return the clause of CREATE TABLE that makes the table belong to a materialized view."""
        return f"TBLPROPERTIES ({quote_string(MATERIALIZED_VIEW_PROPERTY)} = '{view_id}')"

    @abstractmethod
    def restore(self, journalled: JournalledTable) -> TwoPhaseChange:
        """Rebuild the change of another driver from its journal.

        The other driver may have used another name for the same catalog.

        Raises:
            CatalogError: the record contradicts the journal.
        """


class ExistingTable(TwoPhaseTable):
    """A table that already exists, in a statement with IF NOT EXISTS. Nothing is written."""

    write_target = None

    def __init__(self, path: TablePath) -> None:
        self.path = path

    def begin(self) -> None:
        """Do nothing."""

    def is_published(self) -> bool:
        return False

    def commit(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""

    def to_record(self) -> dict[str, Any]:
        return {}
