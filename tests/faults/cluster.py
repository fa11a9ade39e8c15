"""Node processes with fault points, and the Hive metastore that all of them use."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
from tests.faults.hosts import Host, Network, find_child
from tests.support.node import bearer
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.control.host.metastore import Metastore
from headrace.model.transaction import MANAGED_CATALOG_KEY
from headrace.store.statements.statement_queue import CHUNK

_DRIVER = re.compile(r"headrace-(se_[0-9a-f]+)-(\d+)")
LEASE_SECONDS = 3.0
"""Length of a lease, except in lanes with the default times."""
ORPHAN_SECONDS = 30.0
"""How long a driver runs without reaching any node, except in lanes with the default times."""
_ALWAYS = {
    "EMBEDDED__LINGER": "1h",
    # The check for lost drivers expects no driver but that of the warm session of the lane.
    "EMBEDDED__WARM": "0",
    "CATALOG__KIND": "external",
    "STATEMENTS__MAX_WAITING": str(CHUNK + 20),
}
_QUICK = {
    "LEASE__DURATION": f"{LEASE_SECONDS:g}s",
    "LEASE__RENEW": "1s",
    "LEASE__CANCEL_GRACE": "1s",
    "LEASE__SWEEP": "200ms",
    "LEASE__ORPHAN": f"{ORPHAN_SECONDS:g}s",
    "RESULTS__RETENTION": "40s",
    "JOBS__PLAN_RETENTION": "20s",
    "JOBS__SAVEPOINTS_KEPT": "1",
    "JOBS__SAVEPOINT_RETENTION": "1ms",
}
_URI = "spark.hadoop.hive.metastore.uris"
_STOPPED_BY_FAULT = {-signal.SIGKILL, -signal.SIGTERM, 0}
"""Exit statuses of a node that a fault ends while it starts."""
_START_SECONDS = "90s"


class Catalog:
    """A Hive metastore that serves a whole run: sessions must find their tables again."""

    def __init__(self, home: Path) -> None:
        self.warehouse = str(home / "warehouse")
        home.mkdir(parents=True, exist_ok=True)
        self._metastore = Metastore(
            HomeLayout.at(home), warehouse=self.warehouse, linger_seconds=5.0
        )
        conf = self._metastore.ensure()
        # The nodes use it as an external catalog. Only a node itself names a managed catalog.
        self.conf = {key: conf[key] for key in conf if key != MANAGED_CATALOG_KEY}

    def conf_over(self, network: Network) -> dict[str, str]:
        """Return the configuration that reaches the metastore from the hosts of a network."""
        port = int(self.conf[_URI].rpartition(":")[2])
        return self.conf | {_URI: f"thrift://{network.address}:{network.relay(port)}"}

    def close(self) -> None:
        self._metastore.stop()


class ChaosNode:
    """A node process that a fault may kill at any moment and `ensure` starts again.

    On SIGTERM, an embedded node ends its drivers; other nodes leave them running.
    """

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        catalog_conf: dict[str, str],
        *,
        embedded: bool,
        results: str,
        store: str | None = None,
        warehouse: str | None = None,
        host: Host | None = None,
        port: int = 0,
        default_times: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start the node.

        Args:
            environment: Variables that the node and its drivers get, such as those of a plan.
            port: Port of every start; 0: a free port, another one at each start.
            host: Host on which the node runs; None: this machine.
            default_times: Use the default of every duration, instead of short ones.
            settings: Further settings, as names of variables without HEADRACE_.
        """
        self.home = home
        self.host = host
        self._flags = ["--port", str(port), *(["--embedded"] if embedded else [])]
        if host is not None:
            # The networks of the hosts belong to the test alone.
            self._flags += ["--host", host.address]
            environment = {**environment, "HEADRACE_TLS__TERMINATED_BY_PROXY": "true"}
        self._lock = threading.Lock()
        times = {} if default_times else _QUICK
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")},
            **environment,
            **{f"HEADRACE_{key}": value for key, value in _ALWAYS.items()},
            **{f"HEADRACE_{key}": value for key, value in times.items()},
            "HEADRACE_RESULTS__LOCATION": results,
            "HEADRACE_CONF_POLICY__DENY": "[]",
            "HEADRACE_PROFILES": json.dumps(_profiles(catalog_conf)),
        }
        if warehouse is not None:
            self._environment["HEADRACE_CATALOG__WAREHOUSE"] = warehouse
        if store is not None:
            self._environment["HEADRACE_STORE__URL"] = store
        for key, value in (settings or {}).items():
            self._environment[f"HEADRACE_{key}"] = value
        self.starts = 0
        self._start()

    @property
    def store_url(self) -> str:
        default = f"sqlite:///{self.home / 'headrace.db'}"
        return self._environment.get("HEADRACE_STORE__URL", default)

    def ensure(self, *flags: str) -> bool:
        """Start the node if its process has ended, with further flags of the command.

        Return whether it had ended.
        """
        with self._lock:
            if not self.has_ended():
                return False
            self.http.close()
            self._start(*flags)
            return True

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._signal(signal.SIGKILL)
        wait_until(self.has_ended, what="the node has ended")

    def stop(self) -> None:
        """Send SIGTERM and wait for the end of the process. A fault may kill it earlier."""
        self._signal(signal.SIGTERM)
        wait_until(self.has_ended, seconds=120, what="the node has ended")

    def freeze(self, seconds: float) -> None:
        """Stop the process for some seconds, like a suspended laptop. Its drivers continue."""
        with self.frozen():
            # The pause is the fault itself: there is no condition to wait for.
            time.sleep(seconds)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process until the context ends."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def lose_host(self) -> None:
        """End the host of this node with all its processes, and start the host again."""
        self.end_host().start()

    def end_host(self) -> Host:
        """End the host of this node with all its processes, and return it."""
        assert self.host is not None
        host = self.host
        host.kill()
        # Both at once: nsenter may be stopped, and a host ends only when nsenter reaps its node.
        wait_until(
            lambda: self.has_ended() and host.has_ended(), what="the node has ended with its host"
        )
        return host

    def close(self) -> None:
        """Stop the node and end all other processes of its home."""
        if not self.has_ended():
            self.stop()
        self.http.close()
        end(processes_of(self.home))

    def log(self) -> str:
        return (self.home / "node.log").read_text()

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        if self.host is not None:
            # nsenter stops when the node is frozen, and continues only by a signal of its own.
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
        return self._process.poll() is not None

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the node, unless the node has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._node.send_signal(number)

    def _start(self, *flags: str) -> None:
        self.starts += 1
        self.home.mkdir(parents=True, exist_ok=True)
        file = self.home / "node.json"
        file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headrace.frontends", "--home", str(self.home)]
        if self.host is not None:
            command = [*self.host.enter(), *command]
        with (self.home / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._flags, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._node = self._find_node()
        address = self._read_address(file)
        self.http = httpx.Client(base_url=address, headers=bearer(self.home), timeout=30)

    def _find_node(self) -> psutil.Process:
        if self.host is None:
            return psutil.Process(self._process.pid)
        return wait_until(lambda: find_child(self._process), what="the node's process exists")

    def _read_address(self, file: Path) -> str:
        """Return the address in node.json. Restart a node that a fault has ended at its start."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                return str(json.loads(file.read_text())["address"])
            except (OSError, ValueError):
                pass
            if self.has_ended():
                return self._restart()
            time.sleep(0.02)
        raise AssertionError(f"The node did not start: {self.log()[-4000:]}")

    def _restart(self) -> str:
        if self._process.returncode not in _STOPPED_BY_FAULT:
            raise AssertionError(f"The node did not start: {self.log()[-4000:]}")
        self._start()
        return str(self.http.base_url)


class DriverProcess(NamedTuple):
    """A process of a driver, Python or JVM, found by its command line."""

    session: str
    epoch: int
    process: psutil.Process


def find_drivers(folder: Path) -> list[DriverProcess]:
    """Return all live driver processes whose SPARK_FAULT_PLAN is a file in a folder."""
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


def default_profile(catalog_conf: dict[str, str]) -> dict[str, Any]:
    """Return the profile with which the drivers of tests of faults start."""
    conf = {
        **catalog_conf,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "700m",
    }
    return {
        "master": "local[2]",
        "conf": conf,
        "start_timeout": _START_SECONDS,
        "env": {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    }


def _profiles(catalog_conf: dict[str, str]) -> dict[str, Any]:
    default = default_profile(catalog_conf)
    return {
        "default": default,
        # Spark refuses the first; the driver process of the second cannot start.
        "refused": {**default, "master": "nonsense"},
        "missing": {**default, "python": "/nonexistent/python"},
        # Warm sessions whose drivers cannot start pass the point at no cost.
        "warm": {**default, "python": "/nonexistent/python", "warm": 1},
    }
