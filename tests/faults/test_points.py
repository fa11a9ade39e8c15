"""The points are what the code has, under the names by which a running process tells them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.faults.chaos import script
from tests.faults.cluster import Node
from tests.faults.plan import Fault, Plan
from tests.faults.points import points
from tests.faults.recipes import _RECIPES, recipe
from tests.support.waiting import wait_until


def test_every_kind_is_found_where_the_code_has_it() -> None:
    names = [one.name for one in points()]
    assert len(names) == len(set(names))
    assert "store headrace.control.driver_link.service.Link.ended" in names
    assert "store headrace.control.sessions.launch.Launches._started" in names
    assert "link headrace.driver.loop.Loop._renew:renew" in names
    assert "link headrace.driver.__main__.main:goodbye" in names
    assert "launcher headrace.control.sessions.launch.Launches._start:start" in names


def test_every_recipe_is_for_a_point_that_there_is() -> None:
    """And so are the faults that lead there."""
    names = {one.name for one in points()}
    used = {recipe(name) for name in names} - {None}
    assert used == set(_RECIPES.values())
    assert {fault.point for made in _RECIPES.values() for fault in made.first} <= names


def test_a_history_is_made_of_its_seed_alone() -> None:
    found = points()
    assert script("7.3", found) == script("7.3", found)
    turns = {script(f"7.{one}", found).faults[-1:] for one in range(len(found))}
    assert len(turns) > len(found) * 0.8


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(tmp_path, points())


def test_a_node_tells_its_points_by_these_names(tmp_path: Path, plan: Plan) -> None:
    """Without a driver: what it is made to do here, it does by itself."""
    node = Node(tmp_path / "node", plan, None, embedded=False, results=str(tmp_path))
    try:
        session = node.http.post("/api/v1/sessions", json={"profile": "missing"}).json()["id"]
        node.http.delete(f"/api/v1/sessions/{session}")
        node.http.post("/api/v1/statements", json={"statement": "CANCEL STATEMENT 'st_0'"})
    finally:
        node.close()
    passed = {one["point"] for one in plan.passed()}
    assert passed <= {one.name for one in points()}
    assert {
        "store headrace.control.node.Node.start",
        "store headrace.control.periodic_tasks.Sweeper._round",
        "store headrace.control.sessions.service.Sessions.open",
        "store headrace.control.sessions.service.Sessions.close",
        "store headrace.control.statements.submission.Submissions.submit",
        "store headrace.control.node.Node.stop",
    } <= passed


def test_a_fault_is_done_once_at_its_hit(tmp_path: Path, plan: Plan) -> None:
    point = "store headrace.control.sessions.service.Sessions.open"
    plan.write([Fault(point, "after", "kill", hit=2)])
    node = Node(tmp_path / "node", plan, None, embedded=False, results=str(tmp_path))
    try:
        assert node.http.post("/api/v1/sessions", json={"profile": "missing"}).is_success
        with pytest.raises(httpx.TransportError):
            node.http.post("/api/v1/sessions", json={"profile": "missing", "name": "second"})
        wait_until(node.ensure, what="the node is gone, and started again")
        # It is there, or has failed by now: the node was killed after its transaction.
        known = node.http.get("/api/v1/sessions").json()["items"]
        assert "second" in [one["name"] for one in known]
    finally:
        node.close()
    assert [one["point"] for one in plan.passed() if one["did"] == "kill"] == [point]
