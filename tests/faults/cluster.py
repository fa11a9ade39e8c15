"""What a history runs on: nodes with fault points on one store, and a catalog for all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.faults.plan import Plan
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
    """One Hive metastore for the whole run: a session is only as durable as its catalog."""

    def __init__(self, home: Path) -> None:
        self.warehouse = str(home / "warehouse")
        home.mkdir(parents=True, exist_ok=True)
        self._metastore = Metastore(
            HomeLayout.at(home), warehouse=self.warehouse, linger_seconds=5.0
        )
        self.conf = self._metastore.ensure()

    def close(self) -> None:
        self._metastore.stop()


class Node:
    """A node process, which may be killed at any moment and is started again by whoever misses it.

    Embedded ones end their drivers when they are stopped in order; others leave them.
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
        """Starts it again when it has ended. Returns whether it had."""
        with self._lock:
            if self._process.poll() is None:
                return False
            self.http.close()
            self._start()
            return True

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM; it may be killed on its way out."""
        self._process.terminate()
        self._process.wait(timeout=60)

    def close(self) -> None:
        """Nothing of its home stays."""
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
        described = self._described(file)
        token = described.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=described["address"], headers=headers, timeout=30)

    def _described(self, file: Path) -> dict[str, Any]:
        """What it says of itself; one that a fault ends at its start is started once more."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                return dict(json.loads(file.read_text()))
            except (OSError, ValueError):
                pass
            if self._process.poll() is not None:
                return self._again()
            time.sleep(0.02)
        raise AssertionError(f"the node does not start: {self.log()[-4000:]}")

    def _again(self) -> dict[str, Any]:
        if self._process.returncode != -9:
            raise AssertionError(f"the node does not start: {self.log()[-4000:]}")
        self._start()
        return {"address": str(self.http.base_url), "token": self._token()}

    def _token(self) -> str | None:
        token: str | None = json.loads((self.home / "node.json").read_text()).get("token")
        return token


def drivers(home: Path) -> list[tuple[str, int, psutil.Process]]:
    """Every process of a driver that a node of this home has started: session, epoch, process."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if process.environ().get("FAULT_PLAN", "").startswith(f"{home}/"):
                named = _DRIVER.search(words)
                if named and process.status() != psutil.STATUS_ZOMBIE:
                    found.append((named[1], int(named[2]), process))
        except psutil.Error:
            continue
    return found


def _profiles(catalog: Catalog | None) -> dict[str, Any]:
    small = {
        **(catalog.conf if catalog is not None else {}),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "700m",
    }
    usual = {
        "master": "local[2]",
        "conf": small,
        "start_timeout": _START_SECONDS,
        "env": {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    }
    return {
        "default": usual,
        # What Spark refuses, and what cannot even be started.
        "refused": {**usual, "master": "nonsense"},
        "missing": {**usual, "python": "/nonexistent/python"},
        # Warm drivers that never are: enough to pass the point, at no cost.
        "warm": {**usual, "python": "/nonexistent/python", "warm": 1},
    }
