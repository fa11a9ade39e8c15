"""The kinds of tables that die in every way, and the ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.faults.plan import Fault
from tests.faults.recipes import END_REPORTED, TABLE_STEP
from tests.support.lakes import LAKES, Lake
from tests.support.node import NodeProcess

ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(0, 1000, 1, 4)"
SLOW = f"{ROWS} WHERE reflect('java.lang.Thread', 'sleep', 10L + id * 0) IS NOT NULL"
FAILING = (
    "SELECT id, IF(id < 900, 'a', raise_error('half-way')) AS s, id % 3 AS k"
    " FROM range(0, 1000, 1, 4)"
)
SUM = "count(*), sum(CAST(id AS BIGINT)), sum(CAST(k AS BIGINT)), count(DISTINCT s)"
WHOLE = [["1000", "499500", "999", "1000"]]
OLD = "SELECT 7L AS id, '7' AS s, 7L AS k"
OLD_SUM = [["1", "7", "7", "1"]]
_STREAM = "STREAM spark_catalog.default.arriving WITH ('maxFilesPerTrigger' = '2')"


@dataclass(frozen=True, slots=True)
class Kind:
    """Tables of one catalog, made in one way."""

    name: str
    lake: Lake
    words: str = "CREATE TABLE"
    in_memory: bool = False
    located: bool = False
    streamed: bool = False
    own: dict[str, str] = field(default_factory=dict)
    """Configuration of the statement."""

    @property
    def replaces(self) -> bool:
        return "REPLACE" in self.words


_BY_NAME = {lake.name: lake for lake in LAKES}
_REPLACE = "CREATE OR REPLACE TABLE"
KINDS = [
    *(Kind(lake.name, lake) for lake in LAKES),
    Kind("parquet-in-memory", _BY_NAME["parquet"], in_memory=True),
    Kind("parquet-located", _BY_NAME["parquet"], located=True),
    Kind("delta-located", _BY_NAME["delta"], located=True),
    *(Kind(f"{lake.name}-replaced", lake, words=_REPLACE) for lake in LAKES),
    Kind(
        "parquet-streamed",
        _BY_NAME["parquet"],
        streamed=True,
        own={"headrace.ctas.trigger": "available now"},
    ),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to go wrong."""

    way: str
    fault: Fault | None = None
    query: str = ROWS

    @property
    def ends(self) -> str:
        """The state in which the statement ends."""
        # Of what is not journalled yet nobody knows whether it may run again.
        unknown = self.fault == Fault(TABLE_STEP, "before", "kill", hit=1)
        return {"fail": "failed", "cancel": "cancelled"}.get(
            self.way, "failed" if unknown else "success"
        )

    def __str__(self) -> str:
        return f"{self.way}, {self.fault}" if self.fault else self.way


_ALL = [
    Case("fail", query=FAILING),
    Case("cancel", query=SLOW),
    Case("kill the JVM while it writes", query=SLOW),
    # Between one edge's end and the next one's beginning nothing is done, but at the commit.
    *(
        Case(f"{deed} at an edge", Fault(point, side, deed, hit=hit))
        for point, side, hit in (
            (TABLE_STEP, "before", 1),
            (TABLE_STEP, "after", 1),
            (TABLE_STEP, "after", 2),
            (TABLE_STEP, "before", 3),
            (TABLE_STEP, "after", 3),
            (END_REPORTED, "before", 1),
            (END_REPORTED, "after", 1),
        )
        for deed in ("kill", "kill_jvm")
    ),
]


def cases(kind: Kind) -> list[Case]:
    """All ways for each implementation; those that lead elsewhere for its other uses."""
    if kind.lake.name == kind.name:
        return _ALL
    if kind.in_memory:
        # A session whose tables die with its driver ends with it.
        return [one for one in _ALL if one.way in {"fail", "cancel"}]
    edges = {
        Fault(TABLE_STEP, "before", "kill_jvm", hit=3),
        Fault(TABLE_STEP, "after", "kill", hit=3),
    }
    return [one for one in _ALL if one.fault in edges or one.query != ROWS]


class Table:
    """One table of a kind, through a node, in a namespace of its own."""

    made = 0

    def __init__(self, node: NodeProcess, session: str, kind: Kind, folder: Path) -> None:
        Table.made += 1
        self.node = node
        self.session = session
        self.kind = kind
        self._folder = folder
        self._short = f"n{Table.made}"
        self._namespace = f"{kind.lake.catalog}.{self._short}"
        self._name = f"{self._namespace}.t"

    @property
    def _place(self) -> Path:
        if self.kind.lake.catalog == "spark_catalog":
            return self.node.home / "warehouse" / f"{self._short}.db"
        return self._folder / self.kind.lake.catalog / self._short

    @property
    def _location(self) -> Path:
        return self._folder / "located" / self._short

    def ctas(self, query: str) -> str:
        clause = self.kind.lake.clause
        if self.kind.located:
            clause += f" LOCATION '{self._location}'"
        if self.kind.streamed:
            query = query.replace("range(0, 1000, 1, 4)", _STREAM)
        return f"{self.kind.words} {self._name} {clause} AS {query}"

    def begin(self) -> str:
        """What has to be there before; the id of the last statement for it."""
        last = self._run(f"CREATE NAMESPACE {self._namespace}")
        if self.kind.replaces:
            last = self._run(f"CREATE TABLE {self._name} {self.kind.lake.clause} AS {OLD}")
        if self.kind.streamed:
            source = "CREATE TABLE IF NOT EXISTS default.arriving USING parquet"
            last = self._run(f"{source} AS SELECT id FROM range(0, 1000, 1, 4)")
        return last

    def is_writing(self, statement: str) -> bool:
        progress = self.node.statement(statement)["progress"]
        return bool(progress and progress["tasks_active"])

    def kill_jvm(self) -> None:
        driver = self.node.http.get(f"/api/v1/sessions/{self.session}").json()["driver"]
        children = psutil.Process(driver["pid"]).children(recursive=True)
        next(one for one in children if "java" in one.name()).kill()

    def end(self, *, whole: bool) -> None:
        """Looks at what there is, makes it whole if it is not, and drops it."""
        rows = self.node.rows
        if not whole:
            self._check(old=self.kind.replaces)
            self._run(self.ctas(ROWS), **self.kind.own)
        assert rows(f"SELECT {SUM} FROM {self._name}", self.session) == WHOLE, "not whole"
        names = self._names()
        assert names == {"t"}, names
        strange = [one for one in self._files() if one.split("/")[0] != "t"]
        assert not strange, strange
        self._run(f"DROP TABLE {self._name}")
        self._run(f"DROP NAMESPACE {self._namespace}")

    def _check(self, *, old: bool) -> None:
        if old:
            told = self.node.rows(f"SELECT {SUM} FROM {self._name}", self.session)
            assert told == OLD_SUM, told
        else:
            assert self._names() == set(), self._names()
            assert self._files() == [], self._files()

    def _names(self) -> set[str]:
        found = self.node.rows(f"SHOW TABLES IN {self._namespace}", self.session)
        return {row[1] for row in found if not row[2]}

    def _files(self) -> list[str]:
        found = [one for one in self._place.rglob("*") if one.is_file() and one.suffix != ".crc"]
        return [str(one.relative_to(self._place)) for one in found]

    def _run(self, text: str, **conf: str) -> str:
        done = self.node.run(text, self.session, conf=conf)
        assert done["state"] == "success", done
        return str(done["id"])
