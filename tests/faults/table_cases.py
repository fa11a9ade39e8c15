"""The kinds of tables that a statement creates or changes, and the cases that interrupt it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.faults.plan import Fault
from tests.faults.recipes import END_REPORTED, TABLE_STEP
from tests.support.lakes import LAKES, Lake
from tests.support.node import NodeProcess

ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(0, 1000, 1, 4)"
# Delta and Iceberg refuse functions that are not deterministic in UPDATE and MERGE.
_SLOW = "aggregate(sequence(0, 60000), id, (sum, x) -> sum + x) IS NOT NULL"
SLOW = f"{ROWS} WHERE {_SLOW}"
FAILING = (
    "SELECT id, IF(id < 900, 'a', raise_error('half-way')) AS s, id % 3 AS k"
    " FROM range(0, 1000, 1, 4)"
)
SUM = "count(*), sum(CAST(id AS BIGINT)), sum(CAST(k AS BIGINT)), count(DISTINCT s), sum(length(s))"
COMPLETE_SUM = ["1000", "499500", "999", "1000", "2890"]
OLD = "SELECT 7L AS id, '7' AS s, 7L AS k"
OLD_SUM = ["1", "7", "7", "1", "1"]
_CONDITIONS = {
    ROWS: "true",
    SLOW: _SLOW,
    FAILING: "IF(id < 900, true, CAST(raise_error('half-way') AS BOOLEAN))",
}
_CHANGED_SUMS = {
    "INSERT INTO": ["1001", "499507", "1006", "1000", "2891"],
    "INSERT OVERWRITE": COMPLETE_SUM,
    "LOAD DATA": ["1001", "499507", "1006", "1000", "2891"],
    "UPDATE": ["1000", "499500", "999", "1000", "3890"],
    # It changes the old row, and adds all others.
    "MERGE INTO": ["1000", "499500", "1005", "1000", "2891"],
}
"""Sums after a statement that changes rows."""
_STREAM = "STREAM spark_catalog.default.arriving WITH ('maxFilesPerTrigger' = '2')"


@dataclass(frozen=True, slots=True)
class TableKind:
    """Tables of one catalog that are created or changed in one way."""

    name: str
    lake: Lake
    command: str = "CREATE TABLE"
    in_memory: bool = False
    located: bool = False
    streamed: bool = False
    conf: dict[str, str] = field(default_factory=dict)
    """Configuration of the statement."""

    @property
    def has_old_rows(self) -> bool:
        """Whether the table exists before the statement."""
        return "REPLACE" in self.command or self.changes_rows

    @property
    def changes_rows(self) -> bool:
        """Whether the statement changes the rows of a table, instead of creating one."""
        return self.command in _CHANGED_SUMS

    @property
    def old_rows(self) -> tuple[str, list[str]]:
        """The query of the rows before the statement, and their sums."""
        return (ROWS, COMPLETE_SUM) if self.command == "UPDATE" else (OLD, OLD_SUM)

    @property
    def complete_sum(self) -> list[str]:
        """Sums after the statement."""
        # Hive replaces only the partitions that get rows, which the old row's partition is not.
        command = "INSERT INTO" if self.lake is _HIVE else self.command
        return _CHANGED_SUMS.get(command, COMPLETE_SUM)


_BY_NAME = {lake.name: lake for lake in LAKES}
_HIVE = Lake(
    "hive-text", "spark_catalog", "PARTITIONED BY (k) STORED AS TEXTFILE", replaces_atomically=False
)
_FLAT_HIVE = Lake("hive-flat", "spark_catalog", "STORED AS TEXTFILE", replaces_atomically=False)
_DYNAMIC = {"hive.exec.dynamic.partition.mode": "nonstrict"}
_REPLACE = "CREATE OR REPLACE TABLE"
KINDS = [
    *(TableKind(lake.name, lake) for lake in LAKES),
    TableKind("parquet-in-memory", _BY_NAME["parquet"], in_memory=True),
    TableKind("parquet-located", _BY_NAME["parquet"], located=True),
    TableKind("delta-located", _BY_NAME["delta"], located=True),
    *(TableKind(f"{lake.name}-replaced", lake, command=_REPLACE) for lake in LAKES),
    TableKind(
        "parquet-streamed",
        _BY_NAME["parquet"],
        streamed=True,
        conf={"headrace.ctas.trigger": "available now"},
    ),
    *(
        TableKind(f"{lake.name}-{command.split()[-1].lower()}", lake, command, conf=_DYNAMIC)
        for lake in [*LAKES, _HIVE]
        for command in ("INSERT INTO", "INSERT OVERWRITE")
    ),
    TableKind("hive-load", _FLAT_HIVE, "LOAD DATA"),
    *(
        TableKind(f"{name}-{command.split()[0].lower()}", _BY_NAME[name], command)
        for name in ("delta", "iceberg-base")
        for command in ("UPDATE", "MERGE INTO")
    ),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which the creation of a table is interrupted."""

    name: str
    fault: Fault | None = None
    query: str = ROWS

    @property
    def final_state(self) -> str:
        """The state in which the statement ends."""
        return {"fail": "failed", "cancel": "cancelled"}.get(self.name, "success")

    def __str__(self) -> str:
        return f"{self.name}, {self.fault}" if self.fault else self.name


_ALL = [
    Case("fail", query=FAILING),
    Case("cancel", query=SLOW),
    Case("kill the JVM while it writes", query=SLOW),
    # Between two steps of the transaction the driver does nothing, except at the commit.
    *(
        Case(f"{action} at a transaction step", Fault(point, side, action, hit=hit))
        for point, side, hit in (
            (TABLE_STEP, "before", 1),
            (TABLE_STEP, "after", 1),
            (TABLE_STEP, "after", 2),
            (TABLE_STEP, "before", 3),
            (TABLE_STEP, "after", 3),
            (END_REPORTED, "before", 1),
            (END_REPORTED, "after", 1),
        )
        for action in ("kill", "kill_jvm")
    ),
]


def list_cases(kind: TableKind) -> list[Case]:
    """Return all cases for a CTAS of each lake and for changes of rows, and some for variants."""
    if kind.command == "LOAD DATA":
        # It runs no query that could fail or be slow.
        return [case for case in _ALL if case.fault is not None]
    if kind.lake.name == kind.name or kind.changes_rows:
        return _ALL
    if kind.in_memory:
        # The tables of such a session end with its driver, so the session is not continued.
        return [case for case in _ALL if case.name in {"fail", "cancel"}]
    steps = {
        Fault(TABLE_STEP, "before", "kill_jvm", hit=3),
        Fault(TABLE_STEP, "after", "kill", hit=3),
    }
    return [case for case in _ALL if case.fault in steps or case.query != ROWS]


class Table:
    """A table of one kind in a namespace of its own, created or changed through a node."""

    count = 0

    def __init__(self, node: NodeProcess, session: str, kind: TableKind, folder: Path) -> None:
        Table.count += 1
        self.node = node
        self.session = session
        self.kind = kind
        self._folder = folder
        self._short = f"n{Table.count}"
        self._namespace = f"{kind.lake.catalog}.{self._short}"
        self._name = f"{self._namespace}.t"

    @property
    def _folder_of_tables(self) -> Path:
        if self.kind.lake.catalog == "spark_catalog":
            return self.node.home / "warehouse" / f"{self._short}.db"
        return self._folder / self.kind.lake.catalog / self._short

    @property
    def _location(self) -> Path:
        return self._folder / "located" / self._short

    @property
    def _source(self) -> Path:
        """The file of a LOAD DATA."""
        return self._folder / "rows.txt"

    def text(self, query: str) -> str:
        """Return the statement with this query."""
        command = self.kind.command
        if command == "UPDATE":
            return f"UPDATE {self._name} SET s = concat(s, '!') WHERE {_CONDITIONS[query]}"
        if command == "MERGE INTO":
            return (
                f"MERGE INTO {self._name} t USING ({query}) n ON t.id = n.id"
                " WHEN MATCHED THEN UPDATE SET s = concat(t.s, '!')"
                " WHEN NOT MATCHED THEN INSERT *"
            )
        if command == "LOAD DATA":
            return f"LOAD DATA LOCAL INPATH '{self._source}' INTO TABLE {self._name}"
        if self.kind.changes_rows:
            return f"{command} {self._name} {query}"
        clause = self.kind.lake.clause
        if self.kind.located:
            clause += f" LOCATION '{self._location}'"
        if self.kind.streamed:
            query = query.replace("range(0, 1000, 1, 4)", _STREAM)
        return f"{self.kind.command} {self._name} {clause} AS {query}"

    def prepare(self) -> str:
        """Create what the statement needs; return the id of the last statement."""
        last = self._run(f"CREATE NAMESPACE {self._namespace}")
        if self.kind.command == "LOAD DATA":
            self._source.write_text("".join(f"{n}\x01{n}\x01{n % 3}\n" for n in range(1000)))
        if self.kind.has_old_rows:
            query, _sum = self.kind.old_rows
            create = f"CREATE TABLE {self._name} {self.kind.lake.clause} AS {query}"
            last = self._run(create, **self.kind.conf)
        if self.kind.streamed:
            source = "CREATE TABLE IF NOT EXISTS default.arriving USING parquet"
            last = self._run(f"{source} AS SELECT id FROM range(0, 1000, 1, 4)")
        return last

    def is_writing(self, statement: str) -> bool:
        progress = self.node.statement(statement)["progress"]
        return bool(progress and progress["tasks_active"])

    def kill_jvm(self) -> None:
        driver = self.node.http.get(f"/api/v1/sessions/{self.session}").json()["driver"]
        processes = psutil.Process(driver["pid"]).children(recursive=True)
        next(process for process in processes if "java" in process.name()).kill()

    def check_and_drop(self, *, complete: bool) -> None:
        """Check that the table is complete or unchanged, run the statement again, and drop it."""
        if not complete:
            self._check_unchanged(old=self.kind.has_old_rows)
            self._run(self.text(ROWS), **self.kind.conf)
        rows = self.node.rows(f"SELECT {SUM} FROM {self._name}", self.session)
        assert rows == [self.kind.complete_sum], rows
        names = self._list_names()
        assert names == {"t"}, names
        leftovers = [
            file
            for file in self._list_files()
            if file.split("/")[0] != "t" or ".headrace_staged" in file
        ]
        assert not leftovers, leftovers
        self._run(f"DROP TABLE {self._name}")
        self._run(f"DROP NAMESPACE {self._namespace}")

    def _check_unchanged(self, *, old: bool) -> None:
        if old:
            rows = self.node.rows(f"SELECT {SUM} FROM {self._name}", self.session)
            assert rows == [self.kind.old_rows[1]], rows
        else:
            assert self._list_names() == set(), self._list_names()
            assert self._list_files() == [], self._list_files()

    def _list_names(self) -> set[str]:
        rows = self.node.rows(f"SHOW TABLES IN {self._namespace}", self.session)
        return {row[1] for row in rows if not row[2]}

    def _list_files(self) -> list[str]:
        folder = self._folder_of_tables
        files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
        return [str(file.relative_to(folder)) for file in files]

    def _run(self, text: str, **conf: str) -> str:
        statement = self.node.run(text, self.session, conf=conf)
        assert statement["state"] == "success", statement
        return str(statement["id"])
