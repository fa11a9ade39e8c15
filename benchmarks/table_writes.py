"""CTAS and INSERT of 10 million rows: atomic in Headrace, and as plain Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import NodeClient
from benchmarks.peers.in_process import InProcess, in_process

PLAIN, HEADRACE = "PySpark in process", "Headrace over HTTP, atomic"
_ROWS = "SELECT id, id / 7 AS x, CAST(id AS STRING) AS s, {k} AS k FROM range(10000000)"
CTAS = (
    "CREATE TABLE {table} USING parquet AS"
    " SELECT id, id % 1000 AS k, id / 7 AS x, CAST(id AS STRING) AS s FROM range(10000000)"
)
INSERT = "INSERT INTO {table} " + _ROWS.format(k="id % 50")
PARTITIONED = "PARTITIONED BY (k)"
_COLUMNS = "(id BIGINT, x DOUBLE, s STRING, k BIGINT)"
_METASTORE = ("spark.hadoop.hive.metastore.uris", "spark.sql.warehouse.dir")


def measure_ctas(folder: Path, node: NodeClient, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the times of a CTAS, by system."""
    return _measure(folder, node, CTAS, create=None, warm_up=warm_up, rounds=rounds)


def measure_inserts(
    folder: Path, node: NodeClient, clause: str, *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Return the times of an INSERT into a new table, by system.

    Args:
        clause: Clause of the CREATE TABLE.
    """
    create = f"CREATE TABLE {{table}} {_COLUMNS} USING parquet {clause}"
    return _measure(folder, node, INSERT, create=create, warm_up=warm_up, rounds=rounds)


def read_metastore_conf(node: NodeClient) -> dict[str, str]:
    """Return the configuration of a session that uses the metastore and warehouse of a node."""
    conf = {key: str(node.run(f"SET {key}")["rows"][0][1]) for key in _METASTORE}
    return conf | {"spark.sql.catalogImplementation": "hive"}


def ratio(samples: Mapping[str, Sample]) -> float:
    """Return how many times as long as plain Spark Headrace takes."""
    return samples[HEADRACE].median / samples[PLAIN].median


def _measure(
    folder: Path, node: NodeClient, text: str, *, create: str | None, warm_up: int, rounds: int
) -> dict[str, Sample]:
    with in_process(folder / "hive", read_metastore_conf(node)) as spark:
        methods = {
            PLAIN: lambda: _run_plain(spark, text, create),
            HEADRACE: lambda: _run_atomic(node, text, create),
        }
        return interleaved(methods, warm_up=warm_up, rounds=rounds)


def _run_plain(spark: InProcess, text: str, create: str | None) -> float:
    run: Callable[[str], float] = spark.rows_by_collect
    if create is not None:
        run(create.format(table="bench_plain"))
    seconds = run(text.format(table="bench_plain"))
    run("DROP TABLE bench_plain")
    return seconds


def _run_atomic(node: NodeClient, text: str, create: str | None) -> float:
    if create is not None:
        node.run(create.format(table="bench_atomic"))
    start = time.perf_counter()
    statement = node.run(text.format(table="bench_atomic"))
    seconds = time.perf_counter() - start
    assert statement["atomic"]
    node.run("DROP TABLE bench_atomic")
    return seconds
