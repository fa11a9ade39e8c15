"""Three hosts with a node each, behind nginx, with PostgreSQL and a Hive metastore beside them.

Each host has namespaces, a machine id and a home of its own. It sees neither the processes nor the
homes of the others. The nodes share the store, and a folder with results, tables and the state of
streams.
"""

from __future__ import annotations

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
from tests.faults.cluster import Catalog, ChaosNode, DriverProcess, default_profile, find_drivers
from tests.faults.hosts import Host, Network
from tests.faults.invariants import Rows
from tests.faults.snapshot import read_snapshot, read_starts
from tests.support.nginx import running_nginx
from tests.support.ports import free_port
from tests.support.postgres import running_server
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

from headrace.client.http import Client
from headrace.errors import HeadraceError

NODES = 3
ORPHAN_SECONDS = 10.0
"""How long a driver runs without reaching any node."""
MAX_STARTS = 3
"""After as many failed starts in a row, a session has failed."""
RETRY_SECONDS = 120.0
"""How long a client repeats a request. At least one node is healthy all the time."""
RESULTS, CHECKPOINTS, JOBS = "results", "checkpoints", "jobs"
"""Folders in the shared folder."""
_PORT = 18040
_TOKEN = "the-token-of-the-cluster-under-faults"
_START_SECONDS = 120.0
_MACHINE_ID = Path("/etc/machine-id")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ClusterNode:
    """A host of the cluster with its node."""

    def __init__(self, number: int, host: Host, homes: list[Path], start: _NodeStart) -> None:
        """Prepare the host and start the node.

        Args:
            number: Place of the node in the cluster, from 1.
            homes: Homes of all nodes. The host sees only its own.
        """
        self.number = number
        self.host = host
        self._homes = homes
        self._machine = secrets.token_hex(16)
        self._prepare_host()
        self.process = start(homes[number - 1], host)

    @property
    def address(self) -> str:
        """URL of the node."""
        return f"http://{self.host.address}:{_PORT}"

    def connect(self) -> Client:
        """Return a client of this node alone. It does not repeat its requests for long."""
        return Client(self.address, _TOKEN, retry_seconds=5.0)

    def kill_host(self) -> None:
        """End the host with all its processes at once."""
        self.process.end_host()

    def restart_host(self) -> None:
        """Start the host again, as a new boot of the same machine, with its node."""
        self.host.start()
        self._prepare_host()
        self.process.ensure()

    def wait_ready(self) -> None:
        """Start the node if it has ended, and wait until it can serve requests."""
        self.process.ensure()
        with self.connect() as client:
            wait_until(
                lambda: _is_ready(client),
                seconds=_START_SECONDS,
                what=f"node {self.number} is ready",
                every=0.2,
            )

    def _prepare_host(self) -> None:
        """Give the host its own identity, and hide the homes of other hosts."""
        home = self._homes[self.number - 1]
        for target, text in (
            (_MACHINE_ID, self._machine),
            (_BOOT_ID, secrets.token_hex(16)),
        ):
            if not target.exists():
                continue
            source = home.with_name(f"{home.name}-{target.name}")
            source.write_text(f"{text}\n")
            self.host.replace_file(target, source)
        for other in self._homes:
            if other != home:
                self.host.hide(other)


class _NodeStart:
    """Starts the nodes of one cluster, which have the same settings."""

    def __init__(
        self, folder: Path, shared: Path, store: str, balancer: str, catalog: Catalog, uri: Network
    ) -> None:
        profile = default_profile(catalog.conf_over(uri))
        profile["conf"] |= {"spark.driver.memory": "600m"}
        self._environment = {"SPARK_FAULT_PLAN": str(folder / "none")}
        self._catalog_conf = catalog.conf
        self._warehouse = catalog.warehouse
        self._store = store
        self._results = str(shared / RESULTS)
        self._settings = {
            "TOKEN": _TOKEN,
            "HTTP__ALLOWED_HOSTS": json.dumps([balancer]),
            "PROFILES": json.dumps({"default": profile}),
            "CLUSTER__SHARED_PATHS": json.dumps([str(shared), catalog.warehouse]),
            "LEASE__ORPHAN": f"{ORPHAN_SECONDS:g}s",
            "RESULTS__RETENTION": "24h",
            "STREAMS__CHECKPOINTS": str(shared / CHECKPOINTS),
            "STREAMS__LOCATION": str(shared / "streams"),
            "JOBS__STATE_LOCATION": str(shared / JOBS),
            "JOBS__PLAN_RETENTION": "24h",
        }

    def __call__(self, home: Path, host: Host) -> ChaosNode:
        return ChaosNode(
            home,
            self._environment,
            self._catalog_conf,
            embedded=False,
            results=self._results,
            store=self._store,
            warehouse=self._warehouse,
            host=host,
            port=_PORT,
            settings=self._settings,
        )


class HostCluster:
    """The whole cluster. Everything ends with the stack."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.shared = folder / "shared"
        """The only folder that all hosts share, besides the tables."""
        self.shared.mkdir(parents=True)
        server = stack.enter_context(running_server())
        database = server.new_database()
        self._store_url = server.url(database)
        catalog = Catalog(folder / "catalog")
        self.warehouse = Path(catalog.warehouse)
        """Where the tables are."""
        stack.callback(end, processes_of(folder / "catalog"))
        stack.callback(catalog.close)
        network = Network()
        stack.callback(network.close)
        port = free_port()
        store = f"postgresql://postgres@{network.address}:{network.relay(server.port)}/{database}"
        start = _NodeStart(folder, self.shared, store, f"127.0.0.1:{port}", catalog, network)
        homes = [folder / f"node{number}" for number in range(1, NODES + 1)]
        for home in homes:
            home.mkdir()
        self.nodes: list[ClusterNode] = []
        stack.callback(self._kill)
        hosts = [network.add_host() for _ in homes]
        with ThreadPoolExecutor(NODES) as pool:
            self.nodes += pool.map(
                lambda number: ClusterNode(number, hosts[number - 1], homes, start),
                range(1, NODES + 1),
            )
        addresses = [node.address.removeprefix("http://") for node in self.nodes]
        self.url = stack.enter_context(running_nginx(folder / "nginx", addresses, port))
        """URL of nginx."""

    def connect(self) -> Client:
        """Return a client of the cluster, through nginx. It is closed with the cluster."""
        client = Client(self.url, _TOKEN, retry_seconds=RETRY_SECONDS)
        self._stack.callback(client.close)
        return client

    def find_drivers(self) -> list[DriverProcess]:
        """Return all processes of drivers, Python and JVM, sorted by session."""
        return sorted(find_drivers(self.folder), key=lambda driver: (driver.session, driver.epoch))

    def list_starting(self) -> set[str]:
        """Return the sessions whose drivers have not said hello yet, or have no process yet."""
        return {session for session, _ in read_starts(self._store_url)}

    def list_last_starts(self) -> set[str]:
        """Return the sessions that would fail if faults ended the starts of their drivers, too."""
        starts = read_starts(self._store_url)
        return {session for (session, _), number in starts.items() if number >= MAX_STARTS}

    def find_starts(self) -> dict[str, list[DriverProcess]]:
        """Return the processes of each driver that has not said hello yet, by session."""
        starts = read_starts(self._store_url)
        processes: dict[str, list[DriverProcess]] = {}
        for driver in self.find_drivers() if starts else []:
            if (driver.session, driver.epoch) in starts:
                processes.setdefault(driver.session, []).append(driver)
        return processes

    def node_of(self, driver: DriverProcess) -> ClusterNode | None:
        """Return the node on whose host a driver runs. None if the process has ended."""
        try:
            command = " ".join(driver.process.cmdline())
        except psutil.Error:
            return None
        nodes = (node for node in self.nodes if f"{node.process.home}/" in command)
        return next(nodes, None)

    def read_rows(self) -> Rows:
        """Return all rows of the store."""
        return read_snapshot(self._store_url)

    def _kill(self) -> None:
        for node in self.nodes:
            node.process.kill()
            node.process.http.close()


def _is_ready(client: Client) -> bool:
    try:
        return client.ready()
    except HeadraceError:
        return False
