"""A real Spark standalone cluster, master and worker, which the processes of a run share."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.support.jvm import JvmServices
from tests.support.ports import free_ports
from tests.support.shared_services import Address


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """Four cores that are none, and 4 GB of memory that are hardly used."""

    master: str
    url: str

    def applications(self) -> list[str]:
        """Names of those that have not ended."""
        return [one["name"] for one in self._state()["activeapps"]]

    def executors_of(self, application: str) -> list[psutil.Process]:
        """Return the processes of the executors of an application, by its name."""
        [app_id] = [one["id"] for one in self._state()["activeapps"] if one["name"] == application]
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if app_id in (process.info["cmdline"] or []) and "java" in process.name()
        ]

    def _state(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.url}/json/", timeout=60).json())

    def is_up(self) -> bool:
        try:
            return any(one["state"] == "ALIVE" for one in self._state()["workers"])
        except (httpx.TransportError, ValueError):
            return False


def start_standalone(folder: Path) -> Address:
    """Start a cluster and wait until it is up; return the fields of its StandaloneCluster."""
    port, web, worker = free_ports(3)
    cluster = StandaloneCluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{web}")
    services = JvmServices(folder)
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
    services.start("master", [spark_class, f"{of}.master.Master", *at], env)
    size = ["--cores", "4", "--memory", "4g", "--work-dir", str(folder / "work")]
    at = ["--host", "127.0.0.1", "--webui-port", str(worker)]
    command = [spark_class, f"{of}.worker.Worker", *at, *size, cluster.master]
    services.start("worker", command, env)
    services.wait(cluster.is_up, what="the standalone cluster is up")
    return {"master": cluster.master, "url": cluster.url}
