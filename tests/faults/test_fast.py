"""The histories that tell most, on one node and real Spark; `make chaos` plays hundreds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.chaos import Script, play
from tests.faults.cluster import Catalog
from tests.faults.lane import Lane
from tests.faults.plan import Fault
from tests.faults.points import points
from tests.faults.recipes import (
    DRIVER_STARTED,
    END_REPORTED,
    LAUNCH_CLAIMED,
    LEASE_RENEWED,
    START_REPORTED,
)

_HISTORIES = {
    "the node is killed between the claim and the start of a launch": (
        ("query",),
        Fault(LAUNCH_CLAIMED, "after", "kill"),
    ),
    "the node is killed between a start and storing its handle": (
        ("renew_session", "twice"),
        Fault(DRIVER_STARTED, "after", "kill"),
    ),
    "a driver is killed before it reports an end": (
        ("query", "insert"),
        Fault(END_REPORTED, "before", "kill"),
    ),
    "a driver is killed after it has reported an end": (
        ("query", "insert"),
        Fault(END_REPORTED, "after", "kill"),
    ),
    "the JVM is killed under a statement": (
        ("slow", "query"),
        Fault(START_REPORTED, "after", "kill_jvm"),
    ),
    "a driver is frozen for longer than its lease": (
        ("slow", "query"),
        Fault(LEASE_RENEWED, "before", "freeze", hit=2),
    ),
}


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    """A node on SQLite with fault points."""
    catalog = Catalog(tmp_path / "catalog")
    made = Lane(tmp_path / "lane", catalog, points(), number=1, postgres=False)
    yield made
    made.close()
    catalog.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
# Who starts the metastore leaves its process to itself: it outlives nodes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_nothing_is_lost_or_done_twice(lane: Lane) -> None:
    """One after the other, for a driver that no fault has ended serves the next history too."""
    for number, (what, (steps, fault)) in enumerate(_HISTORIES.items()):
        wrong = play(lane, Script(f"fast.{number}", False, steps, (fault,)))
        assert (wrong.unrest, wrong.rows) == ([], []), what
        passed = lane.plan.passed()
        assert [one["did"] for one in passed if one["did"]] == [fault.do], what
        assert {one["point"] for one in passed} <= {one.name for one in points()}, what
