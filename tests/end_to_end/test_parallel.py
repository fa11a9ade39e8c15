"""Parallel statements of one session, on real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.gates import Gate
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_ZONES = ["America/Lima", "Asia/Kathmandu", "Europe/Rome"]


def test_queries_run_in_parallel_but_a_session_change_runs_alone(
    node: NodeProcess, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    query = f"SELECT current_timezone() AS zone, v, count(*) AS n FROM {gate.rows}"
    session = node.session(parallelism=3, conf={"spark.master": "local[4]"})
    assert node.run("DECLARE VARIABLE v INT DEFAULT 4", session)["state"] == "success"
    conf = "spark.sql.session.timeZone"
    with gate.closed():
        queries = [node.submit(query, session, conf={conf: zone})["id"] for zone in _ZONES]
        fourth = node.submit(query, session)["id"]
        barrier = node.submit("SET VARIABLE v = 5", session)["id"]
        last = node.submit("SELECT v, current_timezone()", session)["id"]

        def states() -> list[str]:
            statements = [*queries, fourth, barrier, last]
            return [node.statement(statement_id)["state"] for statement_id in statements]

        wait_until(
            lambda: states() == ["running"] * 3 + ["waiting"] * 3,
            what="three queries run in parallel",
        )
    for statement_id, zone in zip(queries, _ZONES, strict=True):
        assert node.wait_ended(statement_id)["state"] == "success"
        assert node.result(statement_id)["rows"] == [[zone, 4, "1"]]
    # The settings of the queries before it are theirs alone.
    assert node.wait_ended(fourth)["state"] == "success"
    [[zone, v, _]] = node.result(fourth)["rows"]
    assert v == 4
    assert zone not in _ZONES
    assert node.wait_ended(last)["state"] == "success"
    [[v, zone]] = node.result(last)["rows"]
    assert v == 5
    assert zone not in _ZONES
    # The copies of the Spark session that the queries before the change had are out of date.
    later = [node.submit(query, session)["id"] for _ in _ZONES]
    for statement_id in later:
        assert node.wait_ended(statement_id)["state"] == "success"
        assert node.result(statement_id)["rows"] == [[zone, 5, "1"]]
    earlier = [node.statement(statement_id) for statement_id in (*queries, fourth)]
    change, after = node.statement(barrier), node.statement(last)
    assert max(query["ended_at"] for query in earlier) <= change["started_at"]
    assert change["ended_at"] <= after["started_at"]
    node.http.delete(f"/api/v1/sessions/{session}")
