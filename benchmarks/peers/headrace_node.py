"""Headrace: a node with SQLite as its store, a running session, and an HTTP client."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pyarrow as pa

from benchmarks.peers.processes import CONF, process_group, wait_for

SESSION = "bench"
IDLE_SECONDS = 2
MAX_WAITING = 1_000_000
"""Setting `statements.max_waiting` of a node whose submits are measured."""
ARROW = "application/vnd.apache.arrow.stream"


class NodeClient:
    """HTTP client of a node, with one connection that is kept alive."""

    def __init__(
        self,
        address: str,
        pid: int,
        *,
        token: str | None = None,
        password: tuple[str, str] | None = None,
    ) -> None:
        """Create it. `password` is a user of a directory with its password."""
        self.address = address
        self._authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        if password is not None:
            encoded = base64.b64encode(":".join(password).encode()).decode()
            self._authorization = {"Authorization": f"Basic {encoded}"}
        self.process = psutil.Process(pid)
        parts = urlsplit(address)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port
        self._connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        self._used = 0.0

    def rows(self, query: str) -> float:
        """Return the seconds from `POST /statements` to the rows of a query in its response."""
        self.keep_alive()
        start = time.perf_counter()
        statement = self.run(query)
        assert len(statement["rows"]) == statement["result"]["row_count"]
        return time.perf_counter() - start

    def to_arrow(self, query: str) -> float:
        """Return the seconds from `POST /statements` to the whole result as an Arrow table.

        The submit does not wait, so that its response holds no rows as JSON.
        """
        start = time.perf_counter()
        body = {"statement": query, "session": SESSION}
        statement = self.wait_for_success(self.call("POST", "/api/v1/statements", body))
        path = f"/api/v1/statements/{statement['id']}/result"
        self._connection.request("GET", path, headers={"Accept": ARROW, **self._authorization})
        response = self._connection.getresponse()
        _raise_for_status(response, path)
        with pa.ipc.open_stream(response) as reader:
            table = reader.read_all()
        response.read()
        seconds = time.perf_counter() - start
        assert table.num_rows == statement["result"]["row_count"]
        return seconds

    def run(self, text: str, session: str = SESSION) -> dict[str, Any]:
        """Run a statement; its first rows are included if it takes less than 60 s."""
        body = {"statement": text, "session": session, "wait_timeout": "60s"}
        return self.wait_for_success(self.call("POST", "/api/v1/statements", body))

    def wait_for_success(self, statement: dict[str, Any]) -> dict[str, Any]:
        """Wait until a statement has ended and return it. Raise RuntimeError if it failed."""
        while statement["state"] in {"waiting", "launched", "running"}:
            path = f"/api/v1/statements/{statement['id']}?wait_timeout=60s"
            statement = self.call("GET", path)
        if statement["state"] != "success":
            path = f"/api/v1/statements/{statement['id']}?trace=true"
            statement = self.call("GET", path)
            raise RuntimeError(f"{statement['statement']!r} failed: {statement['error']}")
        return statement

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the JSON of its response."""
        value: dict[str, Any] = json.loads(self.text(path, method, body))
        return value

    def text(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> str:
        """Send a request and return the text of its response."""
        self.keep_alive()
        self._connection.request(
            method,
            path,
            json.dumps(body) if body is not None else None,
            {"Content-Type": "application/json", **self._authorization},
        )
        response = self._connection.getresponse()
        _raise_for_status(response, path)
        text = response.read().decode()
        self._used = time.monotonic()
        return text

    def keep_alive(self) -> None:
        """Reconnect after a long pause: the node may have closed the idle connection."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()
            self._connection.connect()


def _raise_for_status(response: http.client.HTTPResponse, path: str) -> None:
    if response.status >= 300:
        raise RuntimeError(
            f"the node responded with {response.status} to {path}: {response.read().decode()}"
        )


@contextmanager
def headrace_node(folder: Path) -> Iterator[NodeClient]:
    """Start a node with a running session; its driver and metastore end with the node."""
    settings = {
        "HEADRACE_STATEMENTS__MAX_WAITING": str(MAX_WAITING),
        # The sessions with Delta and Iceberg bring their jars.
        "HEADRACE_CONF_POLICY__ALLOW": json.dumps(["spark.jars"]),
    }
    with node_process(folder / "headrace", **settings) as (node, process):
        reserved = ("spark.master", "spark.ui.")  # for the operator; a node sets them equally
        conf = {key: value for key, value in CONF.items() if not key.startswith(reserved)}
        session = node.call("POST", "/api/v1/sessions", {"name": SESSION, "conf": conf})["id"]
        node.run("SELECT 1")
        yield node
        node.call("DELETE", f"/api/v1/sessions/{session}")
        states = {"dead", "failed"}
        wait_for(
            lambda: node.call("GET", f"/api/v1/sessions/{session}")["state"] in states,
            process,
            "the end of the session",
        )


@contextmanager
def node_process(
    home: Path, *, token: str | None = None, **settings: str
) -> Iterator[tuple[NodeClient, subprocess.Popen[bytes]]]:
    """Start a node; yield a client and its process. All processes of the home end afterwards.

    Args:
        token: Token of the node; None: requests need none.
    """
    settings |= {} if token is None else {"HEADRACE_TOKEN": token}
    no_auth = ["--no-auth"] if token is None else []
    env = {"HEADRACE_HOME": str(home), "HEADRACE_EMBEDDED__LINGER": "0s", **settings}
    node_file = home / "node.json"
    try:
        with process_group(
            [sys.executable, "-m", "headrace.frontends", "--port", "0", *no_auth], home, env
        ) as process:
            wait_for(node_file.exists, process, "the node")
            address = json.loads(node_file.read_text())["address"]
            yield NodeClient(address, process.pid, token=token), process
    finally:
        _end_processes(home)


def _end_processes(home: Path) -> None:
    processes = [
        process for process in psutil.process_iter(["cmdline"]) if _uses_home(process, home)
    ]
    _, alive = psutil.wait_procs(processes, timeout=15)
    for process in alive:
        process.kill()


def _uses_home(process: psutil.Process, home: Path) -> bool:
    return any(str(home) in argument for argument in process.info["cmdline"] or [])
