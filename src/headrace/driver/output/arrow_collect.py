"""Bringing a frame's rows to the driver as Arrow record batches, by one Spark job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import local_connect_and_auth


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """The batches of a frame, in order.

    What `DataFrame.toArrow` does, without its cast to PySpark's idea of the schema, which fails on
    some types, and closing the socket that it leaves to the garbage collector.
    """
    port, secret, server = frame._jdf.collectAsArrowToPython()  # noqa: SLF001 - toArrow's own way
    # Untyped in PySpark.
    connect: Any = local_connect_and_auth
    serializer = cast("Callable[[], Any]", ArrowCollectSerializer)()
    file, socket = connect(port, secret)
    # Connecting has a limit; the query takes as long as it takes.
    socket.settimeout(None)
    try:
        # The batches come as their tasks end; last comes where each belongs.
        *batches, order = serializer.load_stream(file)
    finally:
        file.close()
        socket.close()
        with unwrap_spark_exception():
            server.getResult()
    return [batches[index] for index in order]
