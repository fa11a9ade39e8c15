"""A node with fifty sessions is killed: another node serves them all, and spares the backend."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.made_results import inline_result
from tests.support.node import NodeProcess
from tests.support.small_driver import write_small_driver
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

_SESSIONS = 50
_LEASE = 5.0
_POLLS = 10


def _count_backend_calls(node: NodeProcess) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(node.http.get("/metrics").text)
        for sample in family.samples
        if sample.name == "headrace_backend_calls_total"
    )


def test_another_node_serves_all_sessions_of_a_killed_node(
    tmp_path: Path, postgres_url: str
) -> None:
    result = inline_result([("x", "integer")], [[1]]).model_dump_json()
    driver = write_small_driver(tmp_path / "driver", result)
    settings = {
        "STORE__URL": postgres_url,
        "CATALOG__KIND": "memory",
        "HTTP__AUTH": "false",
        "RESULTS__LOCATION": str(tmp_path / "results"),
        "PROFILES": json.dumps({"default": {"python": str(driver)}}),
        "LEASE__DURATION": f"{_LEASE:g}s",
        "LEASE__RENEW": "1s",
        "CLUSTER__BACKEND_POLLS": str(_POLLS),
    }
    owner = NodeProcess(tmp_path / "owner", **settings)
    other = NodeProcess(tmp_path / "other", **settings)
    try:
        sessions = [owner.session() for _number in range(_SESSIONS)]
        for session in sessions:
            owner.wait_running(session)
        epochs = [owner.describe_session(session)["epoch"] for session in sessions]
        calls = _count_backend_calls(other)

        owner.kill()
        killed_at = time.monotonic()
        submitted = [other.submit(session=session)["id"] for session in sessions]

        def have_ended() -> bool:
            states = {other.statement(statement)["state"] for statement in submitted}
            return states == {"success"}

        wait_until(have_ended, seconds=_LEASE + 2, what="the other node serves all sessions")
        seconds = time.monotonic() - killed_at
        assert seconds <= _LEASE + 2
        assert _count_backend_calls(other) - calls <= _POLLS * (seconds + 1)
        assert [other.describe_session(session)["epoch"] for session in sessions] == epochs
    finally:
        owner.http.close()
        other.close()
