"""The points that the code has, and the names that a running process reports for them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.faults.chaos import make_scenario
from tests.faults.cluster import ChaosNode
from tests.faults.plan import Fault, Plan
from tests.faults.points import read_points
from tests.faults.recipes import RECIPES
from tests.support.waiting import wait_until


def test_points_of_every_kind_are_read_from_the_code() -> None:
    names = [point.name for point in read_points()]
    assert len(names) == len(set(names))
    assert "store link.ended" in names
    assert "store launch.confirm" in names
    assert "link lease_renewal:renew" in names
    assert "link process:goodbye" in names
    assert "link secret_values:find_streams" in names
    assert "launcher launch:start" in names


def test_every_recipe_and_every_fault_in_it_names_an_existing_point() -> None:
    names = {point.name for point in read_points()}
    assert set(RECIPES) <= names
    assert {fault.point for recipe in RECIPES.values() for fault in recipe.first} <= names


def test_the_seed_alone_determines_a_scenario() -> None:
    points = read_points()
    assert make_scenario("7.3", points) == make_scenario("7.3", points)


def test_the_scenarios_of_a_run_have_different_faults() -> None:
    points = read_points()
    faults = {make_scenario(f"7.{number}", points).faults[-1:] for number in range(len(points))}
    assert len(faults) > len(points) * 0.8


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(tmp_path, read_points())


def test_a_node_reports_its_points_by_these_names(tmp_path: Path, plan: Plan) -> None:
    # No driver is needed: the node makes all of these calls itself.
    node = ChaosNode(tmp_path / "node", plan.environment, {}, embedded=False, results=str(tmp_path))
    try:
        session = node.http.post("/api/v1/sessions", json={"profile": "missing"}).json()["id"]
        node.http.delete(f"/api/v1/sessions/{session}")
        node.http.post("/api/v1/statements", json={"statement": "CANCEL STATEMENT 'st_0'"})
    finally:
        node.close()
    passed = {passage["point"] for passage in plan.read_passages()}
    assert passed <= {point.name for point in read_points()}
    assert {
        "store node.register",
        "store node.return",
        "store session.open",
        "store session.close",
        "store statement.submit",
        "store node.stop",
    } <= passed


def test_a_fault_happens_once_at_its_hit(tmp_path: Path, plan: Plan) -> None:
    point = "store session.open"
    plan.write([Fault(point, "after", "kill", hit=2)])
    node = ChaosNode(tmp_path / "node", plan.environment, {}, embedded=False, results=str(tmp_path))
    try:
        assert node.http.post("/api/v1/sessions", json={"profile": "missing"}).is_success
        with pytest.raises(httpx.TransportError):
            node.http.post("/api/v1/sessions", json={"profile": "missing", "name": "second"})
        wait_until(node.ensure, what="the node has ended and is started again")
        # The node was killed after the transaction that stores the session.
        sessions = node.http.get("/api/v1/sessions").json()["items"]
        assert "second" in [session["name"] for session in sessions]
    finally:
        node.close()
    killed = [passage["point"] for passage in plan.read_passages() if passage["action"] == "kill"]
    assert killed == [point]
