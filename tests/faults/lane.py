"""A lane: nodes on one store that play scenarios one after the other, with a warm session."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.faults.cluster import Catalog, ChaosNode, find_drivers
from tests.faults.hosts import Host, Network
from tests.faults.invariants import Rows
from tests.faults.plan import Plan
from tests.faults.points import Point
from tests.faults.snapshot import read_snapshot
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, running_server
from tests.support.processes import end

_HOST_PORT = 18040
"""Port of a node that has a host, and so all ports, to itself."""


class Deployment(StrEnum):
    """The nodes of a lane, and their store."""

    SQLITE = "a node on SQLite"
    POSTGRES = "two nodes on PostgreSQL"
    HOSTS = "two hosts on PostgreSQL"


@dataclass(frozen=True, slots=True)
class LaneKind:
    """What a lane starts. Scenarios of one kind follow each other in one lane."""

    deployment: Deployment
    default_times: bool = False
    """Whether the nodes use the default of every duration."""

    @property
    def embedded(self) -> bool:
        """Whether the node ends its drivers when it stops."""
        return self.deployment is Deployment.SQLITE

    def __str__(self) -> str:
        return f"{self.deployment}{', default times' if self.default_times else ''}"


class ChaosLane:
    """Nodes on one store: on SQLite, or on a PostgreSQL server of their own."""

    def __init__(
        self, folder: Path, catalog: Catalog, points: list[Point], *, number: int, kind: LaneKind
    ) -> None:
        self.folder = folder
        self.number = number
        self.kind = kind
        self.base: str | None = None
        """The session that serves one scenario after the other while it lives."""
        self.plan = Plan(folder, points)
        self._stack = ExitStack()
        self._server: PostgresServer | None = None
        self._catalog = catalog
        self.nodes: list[ChaosNode] = []
        if kind.deployment is Deployment.SQLITE:
            self._add_node(catalog.conf)
            return
        self._server = self._stack.enter_context(running_server())
        database = self._server.new_database()
        if kind.deployment is Deployment.POSTGRES:
            for _ in range(2):
                self._add_node(catalog.conf, store=self._server.url(database))
            return
        network = Network()
        self._stack.callback(network.close)
        port = network.relay(self._server.port)
        conf = catalog.conf_over(network)
        for _ in range(2):
            store = f"postgresql://postgres@{network.address}:{port}/{database}"
            self._add_node(conf, store=store, host=network.add_host())

    def _add_node(
        self, conf: dict[str, str], *, store: str | None = None, host: Host | None = None
    ) -> None:
        self.nodes.append(
            ChaosNode(
                self.folder / f"node{len(self.nodes)}",
                self.plan.environment,
                conf,
                embedded=self.kind.embedded,
                warehouse=self._catalog.warehouse,
                store=store,
                host=host,
                port=self._choose_port(host),
                results=str(self.results),
                default_times=self.kind.default_times,
                # All hosts share the file system of the machine.
                settings={"CLUSTER__SHARED_PATHS": json.dumps(["/"])} if host else None,
            )
        )

    def _choose_port(self, host: Host | None) -> int:
        """Return the port of a node, which stays the same in a cluster, as in production.

        A driver could not know the new port of a node if the other node is frozen at that moment.
        """
        if self.kind.embedded:
            return 0
        return _HOST_PORT if host is not None else free_port()

    @property
    def results(self) -> Path:
        """Results location of all nodes."""
        return self.folder / "results"

    @property
    def postgres(self) -> bool:
        return self._server is not None

    def restart_store(self) -> None:
        """Stop and start PostgreSQL. On SQLite, do nothing."""
        if self._server is not None:
            self._server.stop()
            self._server.start()

    def ensure_nodes(self) -> None:
        """Start every node that has ended."""
        for node in self.nodes:
            node.ensure()

    def read_rows(self) -> Rows:
        """Return all rows of the store, from one snapshot."""
        return read_snapshot(self.nodes[0].store_url)

    def close(self) -> None:
        """End all nodes, drivers and the PostgreSQL server."""
        self.plan.write([])
        for node in self.nodes:
            node.close()
        end({driver.process for driver in find_drivers(self.folder)})
        self._stack.close()
