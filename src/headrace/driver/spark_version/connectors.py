"""Connectors of Spark: their Maven packages, and the classes of sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge

PACKAGES = {
    "avro": "org.apache.spark:spark-avro_2.13",
    "delta": "io.delta:delta-spark_4.1_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
}
"""Maven packages by provider. Records of Kafka in Avro need that of files in Avro."""
_DATA_SOURCES = "org.apache.spark.sql.execution.datasources"
_PROVIDER_TYPES = (
    "org.apache.spark.sql.connector.catalog.TableProvider",
    "org.apache.spark.sql.sources.StreamSourceProvider",
    "org.apache.spark.sql.sources.StreamSinkProvider",
    "org.apache.spark.sql.sources.RelationProvider",
    "org.apache.spark.sql.sources.SchemaRelationProvider",
    "org.apache.spark.sql.sources.CreatableRelationProvider",
    "org.apache.spark.sql.execution.datasources.FileFormat",
)
"""Spark's `DataSource` expects a class of one of these types."""


def find_data_source(session: SparkSession, provider: str) -> Any:
    """Return the Java class of the data source with a name or class name.

    Raises AnalysisException or Py4JJavaError if Spark finds none, or cannot load it.
    """
    return _look_up(Py4JBridge(session), provider)


def is_data_source(session: SparkSession, java_class: Any) -> bool:
    """Return whether Spark can create a class, and use it as a data source."""
    jvm = Py4JBridge(session)
    modifiers = jvm.type("java.lang.reflect.Modifier")
    if modifiers.isAbstract(java_class.getModifiers()):
        return False
    loader = java_class.getClassLoader() or jvm.session.getClass().getClassLoader()
    for_name = jvm.type("java.lang.Class").forName
    return any(
        for_name(name, False, loader).isAssignableFrom(java_class) for name in _PROVIDER_TYPES
    )


def _look_up(jvm: Py4JBridge, provider: str) -> Any:
    source = jvm.singleton(f"{_DATA_SOURCES}.DataSource")
    return source.lookupDataSource(provider, jvm.state.conf())


def check_file_types(rows: DataFrame, provider: str) -> None:
    """Raise AnalysisException if files of a format cannot hold the types of these rows."""
    jvm = Py4JBridge(rows.sparkSession)
    file_format = jvm.instantiate(jvm.instantiate(_look_up(jvm, provider)).fallbackFileFormat())
    schema = rows._jdf.schema()  # noqa: SLF001 - PySpark would copy it
    is_for_reading = False
    utilities = jvm.singleton(f"{_DATA_SOURCES}.DataSourceUtils")
    utilities.verifySchema(file_format, schema, is_for_reading)


def to_avro_schema(session: SparkSession, ddl: str) -> str:
    """Return the Avro schema of records with these columns."""
    jvm = Py4JBridge(session)
    schema = jvm.type("org.apache.spark.sql.types.StructType").fromDDL(ddl)
    converters = jvm.singleton("org.apache.spark.sql.avro.SchemaConverters")
    return str(converters.toAvroType(schema, False, "row", "").toString())


def find_jdbc_connector(session: SparkSession, options: Mapping[str, str]) -> Callable[[], Any]:
    """Return a function that opens connections (java.sql.Connection), as Spark opens its own.

    Args:
        options: Options of Spark's source `jdbc`, with keys in lower case. The class of the driver
            is loaded now. Raises Py4JJavaError if it is missing.
    """
    jvm = Py4JBridge(session)
    options_class: Any = jvm.type(f"{_DATA_SOURCES}.jdbc.JDBCOptions")
    return _connect_with(jvm, options["url"], options_class(jvm.mapping(dict(options))))


def find_catalog_connector(session: SparkSession, catalog: str, url: str) -> Callable[[], Any]:
    """Return a function that opens connections to the database of a JDBC catalog."""
    jvm = Py4JBridge(session)
    return _connect_with(jvm, url, jvm.field(jvm.catalog(catalog), "options"))


def _connect_with(jvm: Py4JBridge, url: str, options: Any) -> Callable[[], Any]:
    dialect = jvm.singleton("org.apache.spark.sql.jdbc.JdbcDialects").get(url)
    no_partition = -1
    return partial(dialect.createConnectionFactory(options).apply, no_partition)
