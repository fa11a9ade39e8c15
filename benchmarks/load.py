"""Requests per second that one node serves to four connections.

The client is wrk (https://github.com/wg/wrk), a compiled load generator. A client in Python would
take as much of the processors as the node.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.measure import MEDIAN_OF, Sample
from benchmarks.peers.headrace_node import SESSION, NodeClient

CONNECTIONS = 4
WINDOW_SECONDS = 1
_STATEMENTS = 16
_RATE = re.compile(r"^Requests/sec:\s+([\d.]+)$", re.MULTILINE)
_FAILURES = re.compile(r"^\s*(Non-2xx or 3xx responses|Socket errors):.*$", re.MULTILINE)
_READ_IN_TURN = """
local paths = {%s}
local number = 0
request = function()
  number = number %% #paths + 1
  return wrk.format("GET", paths[number])
end
"""
_POST = """
wrk.method = "POST"
wrk.path = "/api/v1/statements"
wrk.body = [==[%s]==]
wrk.headers["Content-Type"] = "application/json"
"""


def status_reads(node: NodeClient, folder: Path, ended: Sequence[str]) -> Sample:
    """Measure `GET /statements/{id}` of ended statements in turn, in requests per second.

    Reads of one statement would share the work of the node.
    """
    return _measure_rates(partial(read_window, node, folder, ended))


def submits(node: NodeClient, folder: Path, session: str) -> Sample:
    """Measure `POST /statements` without a wait, in requests per second.

    Nothing runs the submitted statements, which remain in state waiting.
    """
    return _measure_rates(partial(submit_window, node, folder, session))


def read_window(node: NodeClient, folder: Path, ended: Sequence[str]) -> float:
    """Return the rate of status reads in one window."""
    paths = ", ".join(f'"/api/v1/statements/{statement_id}"' for statement_id in ended)
    return _measure_window(node, folder, _READ_IN_TURN % paths)


def submit_window(node: NodeClient, folder: Path, session: str) -> float:
    """Return the rate of submits in one window."""
    body = json.dumps({"statement": "SELECT 1", "session": session})
    return _measure_window(node, folder, _POST % body)


def run_statements(node: NodeClient) -> list[str]:
    """Run the statements that `status_reads` reads, and return their ids."""
    return [str(node.run("SELECT 1")["id"]) for _ in range(_STATEMENTS)]


def occupy_session(node: NodeClient) -> None:
    """Fill the session with queries that sleep, so that a measurement of submits has only the node.

    The driver would otherwise run the submitted statements.
    """
    milliseconds = 1000 * WINDOW_SECONDS * (MEDIAN_OF + 30)
    sleep = f"SELECT java_method('java.lang.Thread', 'sleep', {milliseconds}L + id) FROM range(1)"
    for _ in range(node.call("GET", f"/api/v1/sessions/{SESSION}")["parallelism"]):
        node.call("POST", "/api/v1/statements", {"statement": sleep, "session": SESSION})


def _measure_rates(window: Callable[[], float]) -> Sample:
    """Return the requests per second in many short windows; a first window is not counted."""
    windows = [window() for _ in range(MEDIAN_OF + 1)]
    return Sample(windows[1:])


def _measure_window(node: NodeClient, folder: Path, script: str) -> float:
    file = folder / "requests.lua"
    file.write_text(script)
    output = subprocess.run(
        [
            *("wrk", "--threads", "1", "--connections", str(CONNECTIONS)),
            *("--duration", f"{WINDOW_SECONDS}s", "--timeout", "30s", "--script", str(file)),
            node.address,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    failure, rate = _FAILURES.search(output), _RATE.search(output)
    if failure is not None or rate is None:
        raise RuntimeError(f"wrk reports failed requests:\n{output}")
    return float(rate[1])
