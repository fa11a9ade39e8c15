"""What a catalog does to create tables whole or not at all; docs/atomic-tables.md tells how.

A catalog of somebody else's joins by an entry point of the group `headrace.catalogs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from headrace.errors import StatementFailed
from headrace.grammar.quoting import quote_name


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
        return ".".join(quote_name(part) for part in self.parts)

    @property
    def guarded(self) -> str:
        """What no two transactions of a catalog may publish at once."""
        return ".".join(quote_name(part) for part in [*self.namespace, self.table]).lower()

    def beside(self, table: str) -> TablePath:
        """Another table of the same namespace."""
        return TablePath(self.catalog, self.namespace, table)

    def within(self, catalog: str) -> TablePath:
        """The same table, where its catalog has this name."""
        return TablePath(catalog, self.namespace, self.table)


PROPERTY = "headrace.txn"
"""The table property that says which transaction has made a table."""
STAGED = "headrace_staged_"
"""How the names of what is staged begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What the statement says of the table, after Spark's analysis has found no fault with it."""

    transaction: str
    """The id of the transaction: staged things carry it in their names."""
    epoch: int
    """That of the driver: so do they carry this."""

    @property
    def own_name(self) -> str:
        """A name that nobody else gives to anything."""
        return f"{STAGED}{self.transaction.removeprefix('tx_')}_{self.epoch}"

    provider: str | None
    location: str | None
    """Of a LOCATION clause."""
    properties: dict[str, str]
    """Of a TBLPROPERTIES clause."""
    replaces: bool
    """`CREATE OR REPLACE`, or `REPLACE`."""
    must_exist: bool
    """`REPLACE` alone."""
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
    replaces: bool = False
    """Whether it is run as the replacement that it is; else it creates a table, in any case."""


class TwoPhaseTable(ABC):
    """One table between its beginning and its end.

    It is driven by the statement's lifecycle, at times by more than one process: what `record`
    gives, the catalog's `restore` makes a table of again, in another driver. `commit` and `abort`
    may be called again after they were interrupted anywhere.
    """

    destination: Destination | None
    """None: there is nothing to write, because the table is there and IF NOT EXISTS was said."""
    atomic: bool = True
    """Whether readers see nothing between: neither half a table, nor none in an old one's place."""
    location: str | None = None
    """The URI of the user's LOCATION, where the files are published in one.

    No two transactions publish in one at once.
    """
    commits_natively: bool = False
    """Whether the catalog makes the table visible at the end of the write, all at once.

    Nothing keeps a cancel apart from that moment: `published` tells who came first.
    """

    @abstractmethod
    def begin(self) -> None:
        """Make ready what the rows need."""

    def seal(self) -> None:  # noqa: B027 - most have nothing to do
        """All rows are written: find out what a commit needs to know, before it is journalled."""

    @abstractmethod
    def published(self) -> bool:
        """Whether the table is there, whole, as this transaction's own."""

    @abstractmethod
    def commit(self) -> None:
        """Make the table visible, with all its rows, under its name.

        Raises TableAlreadyExists, LocationNotEmpty or CatalogError when it is not published and
        cannot be; another's table and files are untouched then, and `abort` follows. Whatever else
        it raises, it is called again.
        """

    def refusal(self, error: Exception) -> StatementFailed | None:  # noqa: ARG002 - as below
        """What the error means by which a catalog has refused to publish a table itself.

        None where it is no refusal, but e.g. the query's own.
        """
        return None

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
        """Which catalog this is, wherever it is configured: the same text means the same tables.

        Every driver asks it of every catalog when it starts: it comes from the configuration, and
        nothing is connected to. It holds no secret.
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
        """A table to be created; nothing has been done yet. None: not atomically, here.

        The rows of a stream that ends are written all at once, after its end: `is_streaming` says
        that they come from one, for catalogs that would rather not. Raises DatabaseNotFound,
        LocationNotEmpty, CatalogError, and TableAlreadyExists unless `ignore_if_exists` is said.
        """

    @abstractmethod
    def restore(self, record: dict[str, Any]) -> TwoPhaseTable:
        """The table that another process has left, which may know the catalog by another name."""


class UntouchedTable(TwoPhaseTable):
    """One that is there already, where that is no error."""

    destination = None

    def __init__(self, path: TablePath) -> None:
        self.path = path

    def begin(self) -> None:
        """Nothing."""

    def published(self) -> bool:
        return False

    def commit(self) -> None:
        """Nothing."""

    def abort(self) -> None:
        """Nothing."""

    def record(self) -> dict[str, Any]:
        return {}
