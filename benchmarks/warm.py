"""Time from the first submit of a new session on a warm driver to the rows."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import Sample
from benchmarks.peers.headrace_node import NodeClient, node_process
from benchmarks.peers.processes import wait_for

TEXTS = {
    "`SELECT 1`": "SELECT 1",
    "a small query with a job": "SELECT sum(id), max(id) FROM range(1000)",
}
_PROFILES = '{"default": {"warm": 1}}'
_WARM = "warmed up in"
"""Text in the log of a warm driver."""


def new_sessions(folder: Path, rounds: int) -> dict[str, Sample]:
    """Measure the first statement of new sessions, in seconds, by the name of the query.

    As in production, the next warm driver starts at the same time on the same cores.
    """
    samples = {name: Sample() for name in TEXTS}
    logs = folder / "warm" / "logs"

    def count_warm_drivers() -> int:
        return sum(_WARM in log.read_text(errors="replace") for log in logs.glob("*.log"))

    with node_process(folder / "warm", HEADRACE_PROFILES=_PROFILES) as (node, process):
        names = list(TEXTS) * rounds
        for number, name in enumerate(names, start=1):
            wait_for(lambda count=number: count_warm_drivers() >= count, process, "a warm driver")
            samples[name].values.append(_measure_first_statement(node, TEXTS[name]))
    return samples


def _measure_first_statement(node: NodeClient, text: str) -> float:
    node.keep_alive()
    body = {"statement": text, "wait_timeout": "60s"}
    start = time.perf_counter()
    statement = node.wait_for_success(node.call("POST", "/api/v1/statements", body))
    seconds = time.perf_counter() - start
    assert statement["rows"]
    node.call("DELETE", f"/api/v1/sessions/{statement['session_id']}")
    return seconds
