"""The Spark Thrift Server in PySpark's jars, and PyHive as its client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from pyhive import hive

from benchmarks.peers.processes import free_port, is_listening, spark_server, wait_for

SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


class ThriftClient:
    """A PyHive connection to the Spark Thrift Server."""

    def __init__(self, connect: Callable[[], hive.Connection]) -> None:
        self._connect = connect
        self._connection = connect()

    def another(self) -> ThriftClient:
        """Return a client with a connection of its own, and so a session of its own."""
        return ThriftClient(self._connect)

    def close(self) -> None:
        self._connection.close()

    def select_one(self) -> float:
        """Return the seconds of `SELECT 1`."""
        return self.run("SELECT 1")

    def run(self, text: str) -> float:
        """Return the seconds of `execute(text)` and `fetchall()` with a new cursor."""
        start = time.perf_counter()
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(text)
            if cursor.description is not None:
                cursor.fetchall()
        return time.perf_counter() - start


@contextmanager
def thrift_server(folder: Path, conf: Mapping[str, str] | None = None) -> Iterator[ThriftClient]:
    """Start a server and yield a client of it.

    Args:
        folder: Has the log, and a Derby catalog unless `conf` names another one.
        conf: Is added to the configuration of the server.
    """
    port = free_port()
    settings = {
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(port),
        "hive.server2.authentication": "NOSASL",
    }
    arguments = [
        argument for key, value in settings.items() for argument in ("--hiveconf", f"{key}={value}")
    ]
    with spark_server(SERVER, conf or {}, arguments, folder / "thrift") as process:
        wait_for(lambda: is_listening(port), process, "the Spark Thrift Server")
        connect = partial(hive.connect, "127.0.0.1", port, auth="NOSASL")
        with closing(ThriftClient(connect)) as client:
            yield client
