"""The rows of the memory sink, as a temporary view of the session of the driver."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.grammar.quoting import quote_name

_DATASET = "org.apache.spark.sql.classic.Dataset"


def publish_memory_view(session: SparkSession, name: str) -> None:
    """Show the view of a memory sink in the session of the driver's statements.

    Spark creates the view in the session of the query, which no statement sees.
    """
    jvm = Py4JBridge(session)
    view = session.table(quote_name(name))._jdf.queryExecution().analyzed()  # noqa: SLF001
    rows = view.collectLeaves().apply(0)
    driver_session = jvm.type("org.apache.spark.sql.classic.SparkSession").getDefaultSession()
    frame = jvm.singleton(_DATASET).ofRows(driver_session.get(), rows)
    frame.createOrReplaceTempView(quote_name(name))
