"""Collection of the rows of a DataFrame on the driver as Arrow batches, with one Spark job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import local_connect_and_auth


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """Return the batches of a DataFrame in order. Raises what Spark raises.

    `DataFrame.toArrow` does the same, but casts to PySpark's Arrow schema, which fails for some
    types, and leaves its socket to the garbage collector.
    """
    port, secret, server = frame._jdf.collectAsArrowToPython()  # noqa: SLF001 - as toArrow does
    # PySpark has no type annotations for these two functions.
    connect: Any = local_connect_and_auth
    serializer = cast("Callable[[], Any]", ArrowCollectSerializer)()
    file, socket = connect(port, secret)
    # The timeout of the connection must not limit the query.
    socket.settimeout(None)
    try:
        # Batches arrive as their tasks end. The last item lists their indices in row order.
        *batches, order = serializer.load_stream(file)
    finally:
        file.close()
        socket.close()
        with unwrap_spark_exception():
            server.getResult()
    return [batches[index] for index in order]
