"""Spark Connect: the server in PySpark's jars, and PySpark's own client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql.connect.session import SparkSession

from benchmarks.peers.processes import free_port, listens, spark_server, wait_for

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class Connect:
    """A client's session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def select_one(self) -> float:
        """Seconds of `spark.sql("SELECT 1").toArrow().to_pylist()` at the client."""
        began = time.perf_counter()
        self._session.sql("SELECT 1").toArrow().to_pylist()
        return time.perf_counter() - began


@contextmanager
def spark_connect(folder: Path) -> Iterator[Connect]:
    """A server with one client."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with spark_server(SERVER, conf, [], folder / "connect") as process:
        wait_for(lambda: listens(port), process, "Spark Connect")
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        try:
            yield Connect(session)
        finally:
            session.stop()
