"""What people run all day: small reads and writes of tables, one at a time and eight at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.connect import spark_connect
from benchmarks.peers.headrace_node import SESSION, NodeClient
from benchmarks.peers.in_process import in_process
from benchmarks.peers.thrift import ThriftClient, thrift_server
from benchmarks.table_writes import read_metastore_conf

PLAIN, HEADRACE = "PySpark in process", "Headrace over HTTP"
CONNECT, THRIFT = "Spark Connect", "Spark Thrift Server"
AT_ONCE = 8
RATE_SECONDS = 5.0
_JARS = Path(__file__).parents[1] / ".tools" / "catalogs"
_LAKE_SESSION = "lakes"
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
    (
        "CREATE TABLE small_files USING parquet PARTITIONED BY (k) AS"
        " SELECT id, id % 100 AS k FROM range(0, 100000, 1, 10)"
    ),
)
_LAKE_TABLES = (
    "CREATE TABLE small_delta USING delta AS SELECT 1 AS id",
    "CREATE TABLE ice.db.small_iceberg USING iceberg AS SELECT 1 AS id",
)


@dataclass(frozen=True)
class Statement:
    """A statement to measure. `{own}` stands for the name of a system's own table."""

    name: str
    text: str
    before: tuple[str, ...] = ()
    """Statements that run before each round, without being measured."""


@dataclass(frozen=True)
class System:
    """A system that runs the statements."""

    own: str
    """Prefix of the names of its own tables."""
    run: Callable[[str], float]
    """Runs a statement and returns its seconds, until the client has the rows."""
    rate: Callable[[str], float]
    """Repeats a query with eight clients and returns how many end in a second."""


_FILTER = Statement("filter, 10 of 100,000 rows", "SELECT * FROM small_many WHERE id % 10000 = 7")
_GROUPS = Statement("`GROUP BY`, 10 groups", "SELECT k, count(*) FROM small_many GROUP BY k")
_TABLE = "CREATE TABLE IF NOT EXISTS {own} (id BIGINT) USING parquet"
READS: tuple[Statement, ...] = (
    Statement("1 row of 1 file", "SELECT * FROM small_one"),
    _FILTER,
    _GROUPS,
    Statement(
        "join and `GROUP BY`",
        "SELECT name, count(*) FROM small_many JOIN small_names USING (k) GROUP BY name",
    ),
    Statement("`LIMIT 1000`", "SELECT * FROM small_many LIMIT 1000"),
    Statement("`ORDER BY … LIMIT 10`", "SELECT * FROM small_many ORDER BY s LIMIT 10"),
    Statement("all 100,000 rows", "SELECT * FROM small_many"),
    Statement("1 of 100 partitions, 1,000 files", "SELECT count(*) FROM small_files WHERE k = 7"),
)
WRITES: tuple[Statement, ...] = (
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
DEFINITIONS: tuple[Statement, ...] = (
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
LAKE_READS: tuple[Statement, ...] = (
    Statement("1 row of Delta", "SELECT * FROM small_delta"),
    Statement("1 row of Iceberg", "SELECT * FROM ice.db.small_iceberg"),
)
LAKE_WRITES: tuple[Statement, ...] = (
    Statement(
        "`INSERT` of 1 row into Delta",
        "INSERT INTO {own}_delta VALUES (1)",
        ("CREATE TABLE IF NOT EXISTS {own}_delta (id BIGINT) USING delta",),
    ),
    Statement(
        "`INSERT` of 1 row into Iceberg",
        "INSERT INTO ice.db.{own} VALUES (1)",
        ("CREATE TABLE IF NOT EXISTS ice.db.{own} (id BIGINT) USING iceberg",),
    ),
)
TOGETHER = (_FILTER, _GROUPS)


@contextmanager
def on_one_warehouse(folder: Path, node: NodeClient) -> Iterator[dict[str, System]]:
    """Yield the systems, with the metastore, the warehouse and the tables of a node."""
    for text in _TABLES:
        node.run(text)
    # As a node configures its drivers: other programs change the tables.
    conf = read_metastore_conf(node) | {"spark.sql.filesourceTableRelationCacheSize": "0"}
    with _systems(folder / "small", node, SESSION, conf) as systems:
        yield systems


@contextmanager
def on_lakes(folder: Path, node: NodeClient) -> Iterator[dict[str, System]]:
    """Yield the systems, with Delta as Spark's catalog and a catalog of Iceberg, `ice`."""
    jars = sorted(str(jar) for jar in _JARS.glob("*.jar"))
    if not jars:
        raise FileNotFoundError("The jars are missing: run scripts/setup-jars catalogs.")
    iceberg = "org.apache.iceberg.spark"
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        f"{iceberg}.extensions.IcebergSparkSessionExtensions",
    )
    conf = {
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": f"{iceberg}.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
        "spark.sql.catalog.ice.cache-enabled": "false",
    }
    body = {"name": _LAKE_SESSION, "conf": conf, "jars": jars}
    session = node.call("POST", "/api/v1/sessions", body)["id"]
    for text in _LAKE_TABLES:
        node.run(text, session)
    conf |= read_metastore_conf(node) | {"spark.jars": ",".join(jars)}
    with _systems(folder / "lakes", node, session, conf) as systems:
        yield systems
    node.call("DELETE", f"/api/v1/sessions/{session}")


@contextmanager
def _systems(
    folder: Path, node: NodeClient, session: str, conf: Mapping[str, str]
) -> Iterator[dict[str, System]]:
    with ExitStack() as stack:
        spark = stack.enter_context(in_process(folder / "in-process", conf))
        connect = stack.enter_context(spark_connect(folder, conf))
        thrift = stack.enter_context(thrift_server(folder, conf))
        yield {
            PLAIN: System(
                "small_plain",
                spark.rows_by_collect,
                partial(spark.rate, threads=AT_ONCE, seconds=RATE_SECONDS),
            ),
            HEADRACE: System(
                "small_headrace",
                partial(_run, node, session),
                partial(_rate_of_node, node, session),
            ),
            CONNECT: System(
                "small_connect", connect.run, lambda text: _rate([connect.run] * AT_ONCE, text)
            ),
            THRIFT: System("small_thrift", thrift.run, partial(_rate_of_thrift, thrift)),
        }


def measure(
    systems: Mapping[str, System], statement: Statement, *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Return the times of a statement, by system."""

    def run(system: System) -> float:
        for text in statement.before:
            system.run(text.format(own=system.own))
        return system.run(statement.text.format(own=system.own))

    methods = {name: partial(run, system) for name, system in systems.items()}
    return interleaved(methods, warm_up=warm_up, rounds=rounds)


def measure_rates(
    systems: Mapping[str, System], statement: Statement, *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Return the rates per second of a statement that eight clients repeat, by system."""
    methods = {name: partial(system.rate, statement.text) for name, system in systems.items()}
    return interleaved(methods, warm_up=warm_up, rounds=rounds)


def ratio(samples: Mapping[str, Sample]) -> float:
    """Return how many times the value of plain Spark that of Headrace is."""
    return samples[HEADRACE].median / samples[PLAIN].median


def is_faster_than_servers(samples: Mapping[str, Sample]) -> bool:
    """Return whether Headrace answers sooner than Spark Connect and the Spark Thrift Server."""
    return samples[HEADRACE].median < min(samples[CONNECT].median, samples[THRIFT].median)


def _run(node: NodeClient, session: str, text: str) -> float:
    """Return the seconds from the submit of a statement to its end, with its rows."""
    start = time.perf_counter()
    node.run(text, session)
    return time.perf_counter() - start


def _rate_of_node(node: NodeClient, session: str, text: str) -> float:
    clients = [NodeClient(node.address, node.process.pid) for _ in range(AT_ONCE)]
    return _rate([partial(_run, client, session) for client in clients], text)


def _rate_of_thrift(thrift: ThriftClient, text: str) -> float:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(thrift.another())) for _ in range(AT_ONCE)]
        return _rate([client.run for client in clients], text)


def _rate(clients: list[Callable[[str], float]], text: str) -> float:
    """Repeat a statement with all clients at once, and return how many ended in a second."""
    start = time.perf_counter()
    counts = [0] * len(clients)

    def repeat(number: int) -> None:
        while time.perf_counter() - start < RATE_SECONDS:
            clients[number](text)
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)
