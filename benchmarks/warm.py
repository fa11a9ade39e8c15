"""What a new session on a warm driver takes from its first submit to the rows."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import Sample
from benchmarks.peers.headrace_node import Node, node_process
from benchmarks.peers.processes import wait_for

TEXTS = {
    "`SELECT 1`": "SELECT 1",
    "a small query with a job": "SELECT sum(id), max(id) FROM range(1000)",
}
_PROFILES = '{"default": {"warm": 1}}'
_WARM = "warmed up in"
"""A driver's log says so."""


def new_sessions(folder: Path, rounds: int) -> dict[str, Sample]:
    """Seconds of the first statement of a new session, by what it asks.

    The next spare driver starts beside it, on the same cores, as it does in use.
    """
    samples = {name: Sample() for name in TEXTS}
    logs = folder / "warm" / "logs"

    def warm_drivers() -> int:
        return sum(_WARM in log.read_text(errors="replace") for log in logs.glob("*.log"))

    with node_process(folder / "warm", HEADRACE_PROFILES=_PROFILES) as (node, process):
        names = list(TEXTS) * rounds
        for number, name in enumerate(names, start=1):
            wait_for(lambda so_far=number: warm_drivers() >= so_far, process, "a warm driver")
            samples[name].values.append(_first_statement(node, TEXTS[name]))
    return samples


def _first_statement(node: Node, text: str) -> float:
    node.keep_alive()
    body = {"statement": text, "wait_timeout": "60s"}
    began = time.perf_counter()
    statement = node.ended(node.call("POST", "/api/v1/statements", body))
    seconds = time.perf_counter() - began
    assert statement["rows"]
    node.call("DELETE", f"/api/v1/sessions/{statement['session_id']}")
    return seconds
