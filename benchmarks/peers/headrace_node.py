"""Headrace: a node with SQLite as its store, a warm session, and a plain HTTP client."""

from __future__ import annotations

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

from benchmarks.peers.processes import CONF, group, wait_for

SESSION = "bench"
IDLE_SECONDS = 2
ARROW = "application/vnd.apache.arrow.stream"


class Node:
    """A node's address and process, and a client with one connection kept alive."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self.process = psutil.Process(pid)
        where = urlsplit(address)
        assert where.hostname is not None
        self.host, self.port = where.hostname, where.port
        self._connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        self._used = 0.0

    def rows(self, query: str) -> float:
        """Seconds from `POST /statements` to the few rows of a query, which come in its answer."""
        self.keep_alive()
        began = time.perf_counter()
        statement = self.run(query)
        assert len(statement["rows"]) == statement["result"]["row_count"]
        return time.perf_counter() - began

    def to_arrow(self, query: str) -> float:
        """Seconds from `POST /statements` to the whole result as an Arrow table at the client.

        The submit does not wait, so that its answer holds no rows as JSON.
        """
        began = time.perf_counter()
        body = {"statement": query, "session": SESSION}
        statement = self.ended(self.call("POST", "/api/v1/statements", body))
        path = f"/api/v1/statements/{statement['id']}/result"
        self._connection.request("GET", path, headers={"Accept": ARROW})
        answer = self._connection.getresponse()
        _check(answer, path)
        with pa.ipc.open_stream(answer) as reader:
            table = reader.read_all()
        answer.read()
        seconds = time.perf_counter() - began
        assert table.num_rows == statement["result"]["row_count"]
        return seconds

    def run(self, text: str) -> dict[str, Any]:
        """A successful statement of the warm session, with its first rows if it took no minute."""
        body = {"statement": text, "session": SESSION, "wait_timeout": "60s"}
        return self.ended(self.call("POST", "/api/v1/statements", body))

    def ended(self, statement: dict[str, Any]) -> dict[str, Any]:
        """The statement once it is a success. Raises RuntimeError when it has failed."""
        while statement["state"] in {"waiting", "launched", "running"}:
            path = f"/api/v1/statements/{statement['id']}?wait_timeout=60s"
            statement = self.call("GET", path)
        if statement["state"] != "success":
            path = f"/api/v1/statements/{statement['id']}?trace=true"
            statement = self.call("GET", path)
            raise RuntimeError(f"{statement['statement']!r} failed: {statement['error']}")
        return statement

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON of one request's answer."""
        found: dict[str, Any] = json.loads(self.text(path, method, body))
        return found

    def text(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> str:
        """The text of one request's answer."""
        self.keep_alive()
        self._connection.request(
            method,
            path,
            json.dumps(body) if body is not None else None,
            {"Content-Type": "application/json"},
        )
        answer = self._connection.getresponse()
        _check(answer, path)
        found = answer.read().decode()
        self._used = time.monotonic()
        return found

    def keep_alive(self) -> None:
        """A connection that has lain idle while others were measured may be closed by the node."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()
            self._connection.connect()


def _check(answer: http.client.HTTPResponse, path: str) -> None:
    if answer.status >= 300:
        raise RuntimeError(f"{path} was answered {answer.status}: {answer.read().decode()}")


@contextmanager
def headrace_node(folder: Path) -> Iterator[Node]:
    """A node with a warm session; its driver and metastore end with it."""
    with node_process(folder / "headrace") as (node, process):
        conf = {key: value for key, value in CONF.items() if key != "spark.master"}
        session = node.call("POST", "/api/v1/sessions", {"name": SESSION, "conf": conf})["id"]
        node.run("SELECT 1")
        yield node
        node.call("DELETE", f"/api/v1/sessions/{session}")
        states = {"dead", "failed"}
        wait_for(
            lambda: node.call("GET", f"/api/v1/sessions/{session}")["state"] in states,
            process,
            "the session's end",
        )


@contextmanager
def node_process(home: Path, **settings: str) -> Iterator[tuple[Node, subprocess.Popen[bytes]]]:
    """A node with a home, and its process; all that it started ends with it."""
    env = {"HEADRACE_HOME": str(home), "HEADRACE_EMBEDDED__LINGER": "0s", **settings}
    described = home / "node.json"
    try:
        with group([sys.executable, "-m", "headrace.api", "--port", "0"], home, env) as process:
            wait_for(described.exists, process, "the node")
            yield Node(json.loads(described.read_text())["address"], process.pid), process
    finally:
        _end_the_rest(home)


def _end_the_rest(home: Path) -> None:
    left = [each for each in psutil.process_iter(["cmdline"]) if _uses(each, home)]
    _, left = psutil.wait_procs(left, timeout=15)
    for process in left:
        process.kill()


def _uses(process: psutil.Process, home: Path) -> bool:
    return any(str(home) in word for word in process.info["cmdline"] or [])
