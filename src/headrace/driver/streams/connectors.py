"""The jars of sources and sinks that are not part of Spark's own distribution."""

from __future__ import annotations

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
