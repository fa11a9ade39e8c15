"""Node processes with fault points, and the Hive metastore that all of them use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
from tests.faults.plan import Plan
from tests.support.node import bearer
from tests.support.processes import end, processes_of

from headrace.control.host.metastore import Metastore
from headrace.home import HomeLayout

_DRIVER = re.compile(r"headrace-(se_[0-9a-f]+)-(\d+)")
_QUICK = {
    "LEASE__DURATION": "3s",
    "LEASE__RENEW": "1s",
    "LEASE__CANCEL_GRACE": "1s",
    "LEASE__SWEEP": "200ms",
    "LEASE__ORPHAN": "60s",
    "RESULTS__RETENTION": "40s",
    "EMBEDDED__LINGER": "1h",
    "CATALOG__KIND": "external",
}
_START_SECONDS = "90s"


class Catalog:
    """A Hive metastore that serves a whole run: sessions must find their tables again."""

    def __init__(self, home: Path) -> None:
        self.warehouse = str(home / "warehouse")
        home.mkdir(parents=True, exist_ok=True)
        self._metastore = Metastore(
            HomeLayout.at(home), warehouse=self.warehouse, linger_seconds=5.0
        )
        self.conf = self._metastore.ensure()

    def close(self) -> None:
        self._metastore.stop()


class ChaosNode:
    """A node process that a fault may kill at any moment and `ensure` starts again.

    On SIGTERM, an embedded node ends its drivers; other nodes leave them running.
    """

    def __init__(
        self,
        home: Path,
        plan: Plan,
        catalog: Catalog | None,
        *,
        embedded: bool,
        results: str,
        store: str | None = None,
    ) -> None:
        self.home = home
        self._flags = ["--embedded"] if embedded else []
        self._lock = threading.Lock()
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")},
            **plan.environment,
            **{f"HEADRACE_{key}": value for key, value in _QUICK.items()},
            "HEADRACE_RESULTS__LOCATION": results,
            "HEADRACE_CONF_POLICY__DENY": "[]",
            "HEADRACE_PROFILES": json.dumps(_profiles(catalog)),
        }
        if catalog is not None:
            self._environment["HEADRACE_CATALOG__WAREHOUSE"] = catalog.warehouse
        if store is not None:
            self._environment["HEADRACE_STORE__URL"] = store
        self.starts = 0
        self._start()

    @property
    def store_url(self) -> str:
        default = f"sqlite:///{self.home / 'headrace.db'}"
        return self._environment.get("HEADRACE_STORE__URL", default)

    def ensure(self) -> bool:
        """Start the node if its process has ended. Return whether it had ended."""
        with self._lock:
            if self._process.poll() is None:
                return False
            self.http.close()
            self._start()
            return True

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM and wait for the end of the process. A fault may kill it earlier."""
        self._process.terminate()
        self._process.wait(timeout=60)

    def close(self) -> None:
        """Stop the node and end all other processes of its home."""
        if self._process.poll() is None:
            self.stop()
        self.http.close()
        end(processes_of(self.home))

    def log(self) -> str:
        return (self.home / "node.log").read_text()

    def _start(self) -> None:
        self.starts += 1
        self.home.mkdir(parents=True, exist_ok=True)
        file = self.home / "node.json"
        file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headrace.api", "--port", "0", "--home", str(self.home)]
        with (self.home / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        address = self._read_address(file)
        self.http = httpx.Client(base_url=address, headers=bearer(self.home), timeout=30)

    def _read_address(self, file: Path) -> str:
        """Return the address in node.json. Restart a node that a fault has killed at its start."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                return str(json.loads(file.read_text())["address"])
            except (OSError, ValueError):
                pass
            if self._process.poll() is not None:
                return self._restart()
            time.sleep(0.02)
        raise AssertionError(f"The node did not start: {self.log()[-4000:]}")

    def _restart(self) -> str:
        if self._process.returncode != -9:
            raise AssertionError(f"The node did not start: {self.log()[-4000:]}")
        self._start()
        return str(self.http.base_url)


class DriverProcess(NamedTuple):
    """A process of a driver, found by its command line."""

    session: str
    epoch: int
    process: psutil.Process


def find_drivers(folder: Path) -> list[DriverProcess]:
    """Return all live driver processes whose plan of faults is in a folder."""
    drivers = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            if process.environ().get("SPARK_FAULT_PLAN", "").startswith(f"{folder}/"):
                match = _DRIVER.search(command)
                if match and process.status() != psutil.STATUS_ZOMBIE:
                    drivers.append(DriverProcess(match[1], int(match[2]), process))
        except psutil.Error:
            continue
    return drivers


def _profiles(catalog: Catalog | None) -> dict[str, Any]:
    conf = {
        **(catalog.conf if catalog is not None else {}),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "700m",
    }
    default = {
        "master": "local[2]",
        "conf": conf,
        "start_timeout": _START_SECONDS,
        "env": {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    }
    return {
        "default": default,
        # Spark refuses the first; the driver process of the second cannot start.
        "refused": {**default, "master": "nonsense"},
        "missing": {**default, "python": "/nonexistent/python"},
        # Warm sessions whose drivers cannot start pass the point at no cost.
        "warm": {**default, "python": "/nonexistent/python", "warm": 1},
    }
