"""Spark Connect: the server in PySpark's jars, and PySpark's own client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql.connect.session import SparkSession

from benchmarks.peers.processes import free_port, is_listening, spark_server, wait_for

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectClient:
    """A session of a Spark Connect client."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def select_one(self) -> float:
        """Return the seconds of `SELECT 1`."""
        return self.run("SELECT 1")

    def run(self, text: str) -> float:
        """Return the seconds of `spark.sql(text).toArrow().to_pylist()` at the client."""
        start = time.perf_counter()
        self._session.sql(text).toArrow().to_pylist()
        return time.perf_counter() - start


@contextmanager
def spark_connect(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[ConnectClient]:
    """Start a server and yield a client of it; `more` is added to its configuration."""
    port = free_port()
    conf = {
        **(more or {}),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with spark_server(SERVER, conf, [], folder / "connect") as process:
        wait_for(lambda: is_listening(port), process, "Spark Connect")
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        try:
            yield ConnectClient(session)
        finally:
            session.stop()
