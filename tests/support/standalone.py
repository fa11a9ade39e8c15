"""A real Spark standalone cluster, master and worker, gone when its block ends."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.support.jvm import JvmServices, free_ports


class StandaloneCluster:
    """Four cores that are none, and 4 GB of memory that are hardly used."""

    def __init__(self, folder: Path) -> None:
        port, web, worker = free_ports(3)
        self.master = f"spark://127.0.0.1:{port}"
        self.url = f"http://127.0.0.1:{web}"
        self._services = JvmServices(folder)
        package = importlib.util.find_spec("pyspark")
        assert package is not None
        assert package.origin is not None
        home = Path(package.origin).parent
        env = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        spark_class = str(home / "bin" / "spark-class")
        of = "org.apache.spark.deploy"
        at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
        self._services.start("master", [spark_class, f"{of}.master.Master", *at], env)
        size = ["--cores", "4", "--memory", "4g", "--work-dir", str(folder / "work")]
        at = ["--host", "127.0.0.1", "--webui-port", str(worker)]
        command = [spark_class, f"{of}.worker.Worker", *at, *size, self.master]
        self._services.start("worker", command, env)

    def wait_up(self) -> None:
        self._services.wait(self._is_up, what="the standalone cluster is up")

    def applications(self) -> list[str]:
        """Names of those that have not ended."""
        return [one["name"] for one in self._state()["activeapps"]]

    def stop(self) -> None:
        self._services.stop()

    def _state(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.url}/json/", timeout=10).json())

    def _is_up(self) -> bool:
        try:
            return any(one["state"] == "ALIVE" for one in self._state()["workers"])
        except (httpx.TransportError, ValueError):
            return False


@contextmanager
def running_standalone() -> Iterator[StandaloneCluster]:
    """A cluster that is coming up; gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-standalone-", dir="/tmp"))
    try:
        cluster = StandaloneCluster(folder)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder)
