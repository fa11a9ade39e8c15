"""What a catalog does to create tables whole or not at all; docs/atomic-tables.md tells how.

A catalog of somebody else's joins by an entry point of the group `headrace.catalogs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from headrace.grammar.quoting import name


@dataclass(frozen=True, slots=True)
class TablePath:
    """The full name of a table."""

    catalog: str
    namespace: tuple[str, ...]
    table: str

    @property
    def parts(self) -> list[str]:
        return [self.catalog, *self.namespace, self.table]

    def quoted(self) -> str:
        """As SQL."""
        return ".".join(name(part) for part in self.parts)

    @property
    def guarded(self) -> str:
        """What no two transactions of a catalog may publish at once."""
        return ".".join(name(part) for part in [*self.namespace, self.table]).lower()

    def beside(self, table: str) -> TablePath:
        """Another table of the same namespace."""
        return TablePath(self.catalog, self.namespace, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What the statement says of the table, after Spark's analysis has found no fault with it."""

    transaction: str
    """The id of the transaction: staged things carry it in their names."""
    epoch: int
    """That of the driver: so do they carry this."""
    provider: str | None
    location: str | None
    """Of a LOCATION clause."""
    partitioned: bool
    plan: Any
    """Spark's analysed plan, a JVM object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the rows of a CTAS go instead of to its target."""

    path: TablePath
    location: str | None = None
    """In the place of the LOCATION clause's; None leaves it as it is."""
    properties: dict[str, str] = field(default_factory=dict)
    """Table properties beside the statement's own."""


class TwoPhaseTable(ABC):
    """One table between its beginning and its end.

    It is driven by the statement's lifecycle, at times by more than one process: what `record`
    gives, the catalog's `restore` makes a table of again, in another driver. `commit` and `abort`
    may be called again after they were interrupted anywhere.
    """

    destination: Destination | None
    """None: there is nothing to write, because the table is there and IF NOT EXISTS was said."""

    @abstractmethod
    def begin(self) -> None:
        """Make ready what the rows need."""

    def seal(self) -> None:  # noqa: B027 - most have nothing to do
        """All rows are written: find out what a commit needs to know, before it is journalled."""

    @abstractmethod
    def commit(self) -> None:
        """Make the table visible, with all its rows, under its name.

        Raises TableAlreadyExists, LocationNotEmpty or CatalogError when it cannot be published;
        another's table and files are untouched then, and `abort` follows.
        """

    @abstractmethod
    def abort(self) -> None:
        """Remove what was staged, and nothing else."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """What another process needs to go on, as JSON."""


class TwoPhaseCatalog(ABC):
    """Creates two-phase tables in one catalog of a Spark session."""

    kind: ClassVar[str]
    """Names the implementation in the journal."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self.session = session
        self.catalog = catalog

    @abstractmethod
    def identity(self) -> str:
        """Which catalog this is, wherever it is configured: the same text means the same tables."""

    @abstractmethod
    def create_two_phase_table(
        self,
        path: TablePath,
        table: TableDefinition,
        *,
        ignore_if_exists: bool,
        is_streaming: bool,
    ) -> TwoPhaseTable | None:
        """A table to be created; nothing has been done yet. None: not atomically, here.

        Raises DatabaseNotFound, LocationNotEmpty, CatalogError, and TableAlreadyExists unless
        `ignore_if_exists` is said.
        """

    @abstractmethod
    def restore(self, record: dict[str, Any]) -> TwoPhaseTable:
        """The table that another process has left."""


class UntouchedTable(TwoPhaseTable):
    """One that is there already, where that is no error."""

    destination = None

    def __init__(self, path: TablePath) -> None:
        self.path = path

    def begin(self) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""

    def abort(self) -> None:
        """Nothing."""

    def record(self) -> dict[str, Any]:
        return {}
