"""The Spark Thrift Server in PySpark's jars, and PyHive as its client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pyhive import hive

from benchmarks.peers.processes import free_port, listens, spark_server, wait_for

SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


class Thrift:
    """A client's connection."""

    def __init__(self, connection: hive.Connection) -> None:
        self._connection = connection

    def select_one(self) -> float:
        """Seconds from a new cursor's `execute("SELECT 1")` to the end of `fetchall()`."""
        began = time.perf_counter()
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()
        return time.perf_counter() - began


@contextmanager
def thrift_server(folder: Path) -> Iterator[Thrift]:
    """A server with one client. Its Derby catalog lies in its folder."""
    port = free_port()
    settings = {
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(port),
        "hive.server2.authentication": "NOSASL",
    }
    arguments = [
        word for key, value in settings.items() for word in ("--hiveconf", f"{key}={value}")
    ]
    with spark_server(SERVER, {}, arguments, folder / "thrift") as process:
        wait_for(lambda: listens(port), process, "the Spark Thrift Server")
        with closing(hive.connect("127.0.0.1", port, auth="NOSASL")) as connection:
            yield Thrift(connection)
