"""Nodes on PostgreSQL behind nginx, with the configuration of the operations guide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.support.nginx import running_nginx
from tests.support.node import NodeProcess
from tests.support.node_client import Json
from tests.support.ports import free_port, reserved_port
from tests.support.waiting import wait_until

TOKEN = "token-of-the-balanced-nodes"
HEADER = {"Authorization": f"Bearer {TOKEN}"}
NEEDS_NO_DRIVER = "SHOW STREAMS"


@dataclass
class BalancedNodes:
    """Two or three nodes, and a client of the nginx in front of them."""

    nodes: list[NodeProcess]
    url: str
    http: httpx.Client

    @property
    def first(self) -> NodeProcess:
        return self.nodes[0]

    @property
    def second(self) -> NodeProcess:
        return self.nodes[1]

    @property
    def ids(self) -> set[str]:
        """Ids of all nodes."""
        return {node.http.get("/health").json()["node_id"] for node in self.nodes}

    def submit(self, key: str) -> Json:
        """Submit one statement with this Idempotency-Key until a node has answered."""

        def accepted() -> httpx.Response | None:
            response = self.http.post(
                "/api/v1/statements",
                json={"statement": NEEDS_NO_DRIVER},
                headers={"Idempotency-Key": key},
            )
            assert response.status_code in {201, 502}, response.text
            return response if response.status_code == 201 else None

        return dict(wait_until(accepted, what="a node accepts the statement").json())

    def list_statements(self) -> list[str]:
        """Return the ids of all statements in the store, as the second node reads them."""
        page = self.second.http.get("/api/v1/statements", params={"limit": 1000}).json()
        assert page["next"] is None
        return [statement["id"] for statement in page["items"]]


@contextmanager
def balanced_nodes(folder: Path, store_url: str, *, count: int = 2) -> Iterator[BalancedNodes]:
    """Run two or three nodes behind nginx. Their drivers never report: no test needs Spark.

    With two, the third node of the configuration is down all the time.
    """
    silent = folder / "silent-driver"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o700)
    port = free_port()
    settings = {
        "STORE__URL": store_url,
        "TOKEN": TOKEN,
        "HTTP__ALLOWED_HOSTS": json.dumps([f"127.0.0.1:{port}"]),
        "CATALOG__KIND": "memory",
        "RESULTS__LOCATION": str(folder / "results"),
        "PROFILES": json.dumps({"default": {"python": str(silent)}}),
        "LEASE__CLOSE_GRACE": "1s",
        "LEASE__RENEW": "1s",
    }

    def start(name: str) -> NodeProcess:
        node = NodeProcess(folder / name, **settings)
        node.http.headers.update(HEADER)
        return node

    with ThreadPoolExecutor(count) as pool:
        nodes = list(pool.map(start, ["first", "second", "third"][:count]))
    addresses = [node.address.removeprefix("http://") for node in nodes]
    with reserved_port() as closed:
        addresses = [*addresses, f"127.0.0.1:{closed}"][:3]
        with (
            running_nginx(folder / "nginx", addresses, port) as url,
            httpx.Client(base_url=url, headers=HEADER, timeout=60) as http,
        ):
            yield BalancedNodes(nodes, url, http)
    for node in reversed(nodes):
        node.close()
