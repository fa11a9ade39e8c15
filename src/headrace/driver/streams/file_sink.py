"""Checks of the rows that a query writes to files, before the query starts.

Spark's file sink checks the columns of each batch, when the query is already running.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.streams.invalid_stream import InvalidStream

_DATA_SOURCES = "org.apache.spark.sql.execution.datasources"


def check_file_columns(rows: DataFrame, provider: str, partitioned_on: tuple[str, ...]) -> None:
    """Check that files of a format can hold these rows.

    Raises:
        InvalidStream: No column stays in the files, or text would need several columns.
        AnalysisException: The format has no such type.
    """
    partitions = {name.casefold() for name in partitioned_on}
    columns = [name for name in rows.columns if name.casefold() not in partitions]
    if not columns:
        raise InvalidStream(
            "PARTITIONED ON names every column of the query. At least one must stay in the files."
        )
    if provider == "text" and len(columns) > 1:
        raise InvalidStream(
            "The sink text writes one column of strings, besides those in PARTITIONED ON. The"
            f" query has {len(columns)}: {', '.join(columns)}. Define a stream of one column, for"
            " example with to_json(struct(*))."
        )
    _check_types(rows.drop(*partitioned_on), provider)


def _check_types(rows: DataFrame, provider: str) -> None:
    jvm = Py4JBridge(rows.sparkSession)
    source = jvm.singleton(f"{_DATA_SOURCES}.DataSource")
    v2_class = source.lookupDataSource(provider, jvm.state.conf())
    file_format = jvm.instantiate(jvm.instantiate(v2_class).fallbackFileFormat())
    schema = rows._jdf.schema()  # noqa: SLF001 - PySpark would copy it
    is_for_reading = False
    utilities = jvm.singleton(f"{_DATA_SOURCES}.DataSourceUtils")
    utilities.verifySchema(file_format, schema, is_for_reading)
