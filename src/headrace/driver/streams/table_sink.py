"""The sink `TO TABLE`: exactly once through a catalog's own streaming write, else by INSERT."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_clauses import OutputMode

_VIEW = "headrace_batch"


def start_table(
    writer: DataStreamWriter,
    rows: DataFrame,
    name: str,
    partitioned_on: tuple[str, ...],
    mode: OutputMode,
) -> StreamingQuery:
    """Start a query that writes to a table, and create the table if it does not exist.

    Spark's file sink in a table of files would hide the rows of any INSERT from readers, because
    they then read the log of the sink only. Such a table therefore gets each batch by INSERT.

    Args:
        name: Name of the table as SQL.
    """
    session = rows.sparkSession
    if not session.catalog.tableExists(name):
        _create_table(session, rows, name, partitioned_on)
    if _is_v1_table(session, name):
        return writer.foreachBatch(_insert_into(name, mode)).start()
    return writer.toTable(name)


def _create_table(
    session: SparkSession, rows: DataFrame, name: str, partitioned_on: tuple[str, ...]
) -> None:
    columns = ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}" for field in rows.schema.fields
    )
    partitions = ", ".join(map(quote_name, partitioned_on))
    clause = f" PARTITIONED BY ({partitions})" if partitions else ""
    session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}){clause}")


def _is_v1_table(session: SparkSession, name: str) -> bool:
    jvm = Py4JBridge(session)
    plan = session.table(name)._jdf.queryExecution().analyzed()  # noqa: SLF001 - not in PySpark
    leaves = jvm.list_of(plan.collectLeaves())
    return any(leaf.getClass().getSimpleName() != "DataSourceV2Relation" for leaf in leaves)


def _insert_into(name: str, mode: OutputMode) -> Callable[[DataFrame, int], None]:
    verb = "INSERT OVERWRITE" if mode is OutputMode.COMPLETE else "INSERT INTO"

    def write(batch: DataFrame, _number: int) -> None:
        session = batch.sparkSession
        batch.createOrReplaceTempView(_VIEW)
        session.sql(f"{verb} {name} BY NAME SELECT * FROM {_VIEW}")  # noqa: S608

    return write
