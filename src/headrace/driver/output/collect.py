"""Collection on the driver, with one Spark job, of Arrow batches and of what Python tasks return.

PySpark does the same, but leaves its sockets to the garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark import RDD
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import local_connect_and_auth

_T = TypeVar("_T")


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """Return the batches of a DataFrame in order. Raises what Spark raises.

    `DataFrame.toArrow` also casts to PySpark's Arrow schema, which fails for some types.
    """
    # An index is one round trip. To unpack the Java array takes seven.
    answer = frame._jdf.collectAsArrowToPython()  # noqa: SLF001 - as toArrow does
    port, secret, server = answer[0], answer[1], answer[2]
    # PySpark has no type annotations for this function.
    serializer = cast("Callable[[], Any]", ArrowCollectSerializer)()
    try:
        with _open_connection(port, secret) as file:
            # Batches arrive as their tasks end. The last item lists their indices in row order.
            *batches, order = serializer.load_stream(file)
    finally:
        with unwrap_spark_exception():
            server.getResult()
    return [batches[index] for index in order]


def collect_rdd(rdd: RDD[_T]) -> list[_T]:
    """Return the elements of an RDD in order. Raises what Spark raises."""
    jvm: Any = rdd.context._jvm  # noqa: SLF001 - as RDD.collect does
    port, secret, *_ = jvm.PythonRDD.collectAndServe(rdd._jrdd.rdd())  # noqa: SLF001 - as above
    with _open_connection(port, secret) as file:
        serializer: Any = rdd._jrdd_deserializer  # noqa: SLF001 - as above
        return list(serializer.load_stream(file))


@contextmanager
def _open_connection(port: int, secret: str) -> Iterator[Any]:
    """Yield a file that reads what the JVM serves at a port."""
    connect: Any = local_connect_and_auth
    file, socket = connect(port, secret)
    # The timeout of the connection must not limit the query.
    socket.settimeout(None)
    try:
        yield file
    finally:
        file.close()
        socket.close()
