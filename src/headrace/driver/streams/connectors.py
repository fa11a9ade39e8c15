"""The jars of sources and sinks that are not part of Spark's own distribution."""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.streams.invalid_stream import InvalidStream

_PACKAGES = {
    "avro": "org.apache.spark:spark-avro_2.13",
    "delta": "io.delta:delta-spark_4.1_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
}
"""Maven packages by provider. Records of Kafka in Avro need that of files in Avro."""
_JDBC_OPTIONS = "org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions"
_DATA_SOURCE = "org.apache.spark.sql.execution.datasources.DataSource"


def check_connector(session: SparkSession, provider: str) -> None:
    """Raise InvalidStream if the jars of a provider are not on the class path of the session."""
    package = _PACKAGES.get(provider.lower())
    if package is None:
        return
    jvm = Py4JBridge(session)
    try:
        jvm.singleton(_DATA_SOURCE).lookupDataSource(provider, jvm.state.conf())
    except (AnalysisException, Py4JJavaError) as error:
        raise InvalidStream(
            f"The session cannot read or write {provider.lower()}, because the jars of {package}"
            " are missing. Add the package to spark.jars.packages in the configuration of the"
            " profile or of a new session."
        ) from error


def check_jdbc_driver(session: SparkSession, options: Mapping[str, str]) -> None:
    """Raise InvalidStream if the session lacks the class of a database's driver.

    Args:
        options: Options of the sink, by key in lower case.
    """
    jvm = Py4JBridge(session)
    try:
        jvm.type(_JDBC_OPTIONS)(jvm.mapping(dict(options)))
    except Py4JJavaError as error:
        database = ":".join(options["url"].split(":")[:2])
        needed = options.get("driver")
        reason = f"the class {needed} is missing" if needed else "no driver accepts the URL"
        advice = "" if needed else " Name the class of the driver with the option driver."
        raise InvalidStream(
            f"The session cannot write to {database}, because {reason}.{advice} Add the jar of the"
            " database's driver to spark.jars, or its package to spark.jars.packages, in the"
            " configuration of the profile or of a new session."
        ) from error
