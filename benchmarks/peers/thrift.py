"""The Spark Thrift Server in PySpark's jars, and PyHive as its client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pyhive import hive

from benchmarks.peers.processes import free_port, is_listening, spark_server, wait_for

SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


class ThriftClient:
    """A PyHive connection to the Spark Thrift Server."""

    def __init__(self, connection: hive.Connection) -> None:
        self._connection = connection

    def select_one(self) -> float:
        """Return the seconds of `execute("SELECT 1")` and `fetchall()` with a new cursor."""
        start = time.perf_counter()
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()
        return time.perf_counter() - start


@contextmanager
def thrift_server(folder: Path) -> Iterator[ThriftClient]:
    """Start a server and yield a client of it. Its Derby catalog is in `folder`."""
    port = free_port()
    settings = {
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(port),
        "hive.server2.authentication": "NOSASL",
    }
    arguments = [
        argument for key, value in settings.items() for argument in ("--hiveconf", f"{key}={value}")
    ]
    with spark_server(SERVER, {}, arguments, folder / "thrift") as process:
        wait_for(lambda: is_listening(port), process, "the Spark Thrift Server")
        with closing(hive.connect("127.0.0.1", port, auth="NOSASL")) as connection:
            yield ThriftClient(connection)
