"""Two nodes with small drivers: the one that owns all sessions is killed, the other serves them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.support.made_results import inline_result
from tests.support.node import NodeProcess
from tests.support.small_driver import write_small_driver
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Takeover:
    """What happened until the other node had served a statement of every session."""

    seconds: float
    """From the SIGKILL of the owner until the last statement had ended."""
    backend_calls: float
    """Calls of the other node to the backend meanwhile."""
    relaunched: int
    """Sessions that got another driver."""


def measure_takeover(
    folder: Path, store_url: str, *, sessions: int, lease: float, limit: float, **settings: str
) -> Takeover:
    """Kill the node that owns all sessions, and submit a statement for each at the other node.

    Durations are seconds. Raises AssertionError if a session is not served within `limit`.
    """
    result = inline_result([("x", "integer")], [[1]]).model_dump_json()
    driver = write_small_driver(folder / "driver", result)
    settings = {
        "STORE__URL": store_url,
        "CATALOG__KIND": "memory",
        "HTTP__AUTH": "false",
        "RESULTS__LOCATION": str(folder / "results"),
        "PROFILES": json.dumps({"default": {"python": str(driver)}}),
        "LEASE__DURATION": f"{lease:g}s",
        "LIMITS__SESSIONS_PER_USER": str(2 * sessions),
        **settings,
    }
    owner = NodeProcess(folder / "owner", **settings)
    other = NodeProcess(folder / "other", **settings)
    try:
        owned = [owner.session() for _number in range(sessions)]
        for session in owned:
            owner.wait_running(session)
        epochs = [owner.describe_session(session)["epoch"] for session in owned]
        calls = _count_backend_calls(other)

        owner.kill()
        killed_at = time.monotonic()
        submitted = [other.submit(session=session)["id"] for session in owned]

        def have_ended() -> bool:
            states = {other.statement(statement)["state"] for statement in submitted}
            return states == {"success"}

        wait_until(have_ended, seconds=limit, what="the other node serves all sessions")
        seconds = time.monotonic() - killed_at
        calls = _count_backend_calls(other) - calls
        after = [other.describe_session(session)["epoch"] for session in owned]
    finally:
        owner.http.close()
        other.close()
    relaunched = sum(now != before for before, now in zip(epochs, after, strict=True))
    return Takeover(seconds, calls, relaunched)


def _count_backend_calls(node: NodeProcess) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(node.http.get("/metrics").text)
        for sample in family.samples
        if sample.name == "headrace_backend_calls_total"
    )
