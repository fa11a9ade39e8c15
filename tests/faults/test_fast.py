"""The most important scenarios, on one node and real Spark; `make chaos` plays hundreds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.chaos import Scenario, Violations, play_scenario
from tests.faults.cluster import Catalog
from tests.faults.lane import ChaosLane, Deployment, LaneKind
from tests.faults.plan import Fault
from tests.faults.points import read_points
from tests.faults.recipes import (
    DRIVER_STARTED,
    END_REPORTED,
    LAUNCH_CLAIMED,
    LEASE_RENEWED,
    START_REPORTED,
)

_KIND = LaneKind(Deployment.SQLITE)
_SCENARIOS = {
    "the node is killed between the claim and the start of a launch": (
        ("query",),
        Fault(LAUNCH_CLAIMED, "after", "kill"),
    ),
    "the node is killed after it has started a driver and before it stores the handle": (
        ("renew_session", "twice"),
        Fault(DRIVER_STARTED, "after", "kill"),
    ),
    "a driver is killed before it reports the end of a statement": (
        ("query", "insert"),
        Fault(END_REPORTED, "before", "kill"),
    ),
    "a driver is killed after it has reported the end of a statement": (
        ("query", "insert"),
        Fault(END_REPORTED, "after", "kill"),
    ),
    "the JVM is killed while a statement runs": (
        ("slow", "query"),
        Fault(START_REPORTED, "after", "kill_jvm"),
    ),
    "a driver is frozen for longer than its lease": (
        ("slow", "query"),
        Fault(LEASE_RENEWED, "before", "freeze", hit=2),
    ),
}


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[ChaosLane]:
    """Yield a lane with one node on SQLite."""
    with closing(Catalog(tmp_path / "catalog")) as catalog:
        folder = tmp_path / "lane"
        with closing(ChaosLane(folder, catalog, read_points(), number=1, kind=_KIND)) as lane:
            yield lane


@pytest.mark.spark
@pytest.mark.timeout(900)
# The metastore outlives the node that starts it, so nothing waits for its process.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_no_statement_is_lost_or_executed_twice_when_a_process_dies(lane: ChaosLane) -> None:
    """Play all scenarios in one lane: a driver that survives serves the next scenario."""
    names = {point.name for point in read_points()}
    for number, (title, (steps, fault)) in enumerate(_SCENARIOS.items()):
        violations = play_scenario(lane, Scenario(f"fast.{number}", _KIND, steps, (fault,)))
        assert violations == Violations([], []), title
        assert lane.plan.read_actions() == [fault.action], title
        assert {passage["point"] for passage in lane.plan.read_passages()} <= names, title
