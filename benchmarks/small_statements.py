"""What people run all day: small reads and writes of tables, one at a time and eight at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import NodeClient
from benchmarks.peers.in_process import InProcess, in_process
from benchmarks.table_writes import read_metastore_conf

PLAIN, HEADRACE = "PySpark in process", "Headrace over HTTP"
AT_ONCE = 8
RATE_SECONDS = 5.0
_TABLES = (
    "CREATE TABLE small_one USING parquet AS SELECT 1 AS id",
    (
        "CREATE TABLE small_many USING parquet AS SELECT id, id % 10 AS k, CAST(id AS STRING) AS s"
        " FROM range(0, 100000, 1, 1)"
    ),
    (
        "CREATE TABLE small_names USING parquet AS SELECT id AS k, CONCAT('name ', id) AS name"
        " FROM range(0, 10, 1, 1)"
    ),
)


@dataclass(frozen=True)
class Statement:
    """A statement to measure. `{own}` stands for the name of a system's own table."""

    name: str
    text: str
    before: tuple[str, ...] = ()
    """Statements that run before each round, without being measured."""


_FILTER = Statement("filter, 10 of 100,000 rows", "SELECT * FROM small_many WHERE id % 10000 = 7")
_GROUPS = Statement("`GROUP BY`, 10 groups", "SELECT k, count(*) FROM small_many GROUP BY k")
_TABLE = "CREATE TABLE IF NOT EXISTS {own} (id BIGINT) USING parquet"
READS = (
    Statement("1 row of 1 file", "SELECT * FROM small_one"),
    _FILTER,
    _GROUPS,
    Statement(
        "join and `GROUP BY`",
        "SELECT name, count(*) FROM small_many JOIN small_names USING (k) GROUP BY name",
    ),
    Statement("`LIMIT 1000`", "SELECT * FROM small_many LIMIT 1000"),
    Statement("`ORDER BY … LIMIT 10`", "SELECT * FROM small_many ORDER BY s LIMIT 10"),
)
WRITES = (
    Statement("`INSERT` of 1 row", "INSERT INTO {own} VALUES (1)", (_TABLE,)),
    Statement(
        "`INSERT` into a partition",
        "INSERT INTO {own}_parts PARTITION (k = 1) VALUES (1)",
        (
            (
                "CREATE TABLE IF NOT EXISTS {own}_parts (id BIGINT, k INT) USING parquet"
                " PARTITIONED BY (k)"
            ),
        ),
    ),
    Statement("`INSERT OVERWRITE` of 1 row", "INSERT OVERWRITE {own} VALUES (1)", (_TABLE,)),
)
DEFINITIONS = (
    Statement(
        "`CREATE TABLE AS SELECT` of 1 row",
        "CREATE TABLE {own}_new USING parquet AS SELECT 1 AS id",
        ("DROP TABLE IF EXISTS {own}_new",),
    ),
    Statement("`DROP TABLE`", "DROP TABLE {own}_old", ("CREATE TABLE {own}_old (id INT)",)),
    Statement("`DESCRIBE`", "DESCRIBE small_many"),
    Statement("`EXPLAIN`", "EXPLAIN SELECT * FROM small_many"),
    Statement("`SHOW TABLES`", "SHOW TABLES"),
)
TOGETHER = (_FILTER, _GROUPS)


@contextmanager
def on_one_warehouse(folder: Path, node: NodeClient) -> Iterator[InProcess]:
    """Yield PySpark with the metastore and the warehouse of a node, which has the tables."""
    for text in _TABLES:
        node.run(text)
    # As a node configures its drivers: other programs change the tables.
    conf = read_metastore_conf(node) | {"spark.sql.filesourceTableRelationCacheSize": "0"}
    with in_process(folder / "small", conf) as spark:
        yield spark


def measure(
    spark: InProcess, node: NodeClient, statement: Statement, *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Return the times of a statement, by system."""
    systems: dict[str, tuple[Callable[[str], float], str]] = {
        PLAIN: (spark.rows_by_collect, "small_plain"),
        HEADRACE: (partial(_run, node), "small_headrace"),
    }

    def run(system: str) -> float:
        execute, own = systems[system]
        for text in statement.before:
            execute(text.format(own=own))
        return execute(statement.text.format(own=own))

    methods = {name: partial(run, name) for name in systems}
    return interleaved(methods, warm_up=warm_up, rounds=rounds)


def measure_rates(
    spark: InProcess, node: NodeClient, statement: Statement, *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Return the rates per second of a statement that eight clients repeat, by system."""
    methods = {
        PLAIN: lambda: spark.rate(statement.text, threads=AT_ONCE, seconds=RATE_SECONDS),
        HEADRACE: lambda: _rate(node, statement.text),
    }
    return interleaved(methods, warm_up=warm_up, rounds=rounds)


def ratio(samples: Mapping[str, Sample]) -> float:
    """Return how many times the value of plain Spark that of Headrace is."""
    return samples[HEADRACE].median / samples[PLAIN].median


def _run(node: NodeClient, text: str) -> float:
    """Return the seconds from the submit of a statement to its end, with its rows."""
    start = time.perf_counter()
    node.run(text)
    return time.perf_counter() - start


def _rate(node: NodeClient, text: str) -> float:
    """Repeat a statement on eight connections, and return how many ended in a second."""
    start = time.perf_counter()
    counts = [0] * AT_ONCE

    def repeat(number: int) -> None:
        client = NodeClient(node.address, node.process.pid)
        while time.perf_counter() - start < RATE_SECONDS:
            client.run(text)
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)
