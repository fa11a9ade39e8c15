"""Time of the calls of HiveServer2 that list 5,000 tables of Spark's catalog in memory.

A driver's Spark lists them, and the rows of the calls are made from its result, as a node does. The
way of the statement through the store is that of any statement, and is not measured.
Run it alone by `python -m benchmarks.listings`: it starts a Spark of its own.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.catalog_objects import list_objects
from headrace.frontends.hiveserver2.listings import MetadataCall, read_rows
from headrace.grammar.metadata import ListedObjects, ListObjects

if TYPE_CHECKING:
    from headrace.results.reader import Rows

TABLES, COLUMNS = 5000, 10
ROUNDS = 5
_CALLS = {
    MetadataCall.TABLES: ListObjects(ListedObjects.TABLES),
    MetadataCall.COLUMNS: ListObjects(ListedObjects.COLUMNS),
}


def listing_times(folder: Path, *, tables: int = TABLES) -> dict[MetadataCall, list[float]]:
    """Measure GetTables and GetColumns for that many tables, in seconds."""
    session = _start_spark(folder)
    try:
        _create_tables(session, tables)
        times: dict[MetadataCall, list[float]] = {}
        for call, command in _CALLS.items():
            times[call] = [_time(session, call, command) for _round in range(ROUNDS)]
        return times
    finally:
        session.stop()


def _start_spark(folder: Path) -> SparkSession:
    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )


def _create_tables(session: SparkSession, tables: int) -> None:
    """Create tables as the first one, by calls of the catalog: DDL would take minutes."""
    columns = ", ".join(f"c{number} DECIMAL(18,2)" for number in range(COLUMNS))
    session.sql(f"CREATE TABLE t0 ({columns}) USING parquet")
    bridge = Py4JBridge(session)
    external = bridge.state.catalog().externalCatalog()
    first = external.getTable("default", "t0")
    values: list[Any] = [getattr(first, f"copy$default${at}")() for at in range(1, 22)]
    identifier = bridge.type("org.apache.spark.sql.catalyst.TableIdentifier")
    for number in range(1, tables):
        values[0] = identifier(f"t{number}", bridge.some("default"))
        external.createTable(first.copy(*values), False)


def _time(session: SparkSession, call: MetadataCall, command: ListObjects) -> float:
    start = time.perf_counter()
    found = list_objects(session, command).toArrow()
    schema = SimpleNamespace(names=found.column_names)
    rows = SimpleNamespace(schema=schema, batches=found.to_batches)
    batch = read_rows(call, cast("Rows", rows), command.to_sql(), 0)
    seconds = time.perf_counter() - start
    assert batch.num_rows >= found.num_rows
    return seconds


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for call, times in listing_times(Path(name)).items():
            print(call.name, *(f"{seconds:.2f} s" for seconds in times))
