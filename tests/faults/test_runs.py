"""A batch job whose processes or store are lost at a step of a run; `runs.py` plays hundreds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.cluster import Catalog
from tests.faults.invariants import find_violations
from tests.faults.lane import ChaosLane, Deployment, LaneKind
from tests.faults.plan import Fault
from tests.faults.points import read_points
from tests.faults.recipes import TABLE_STEP
from tests.faults.runs import STEPS, RunHistory, RunPlayer, list_seeds, make_history

_FAULTS = {
    Deployment.SQLITE: {
        "firing": Fault("store schedule.fire", "before_commit", "kill"),
        "answer": Fault("store run.step", "after", "lose_answer", hit=2),
    },
    Deployment.POSTGRES: {
        "connection": Fault("store statement.submit", "before_commit", "cut", hit=2),
        "commit": Fault(TABLE_STEP, "after", "kill_all", hit=3),
    },
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Yield a Hive metastore."""
    with closing(Catalog(tmp_path_factory.mktemp("catalog"))) as catalog:
        yield catalog


@pytest.mark.spark
@pytest.mark.timeout(900)
# The metastore outlives the node that starts it, so nothing waits for its process.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
@pytest.mark.parametrize("deployment", _FAULTS, ids=["sqlite", "postgres"])
def test_each_logical_time_is_applied_once_whatever_is_lost(
    catalog: Catalog, tmp_path: Path, deployment: Deployment
) -> None:
    lane = ChaosLane(tmp_path, catalog, read_points(), number=1, kind=LaneKind(deployment))
    with closing(lane), closing(RunPlayer(lane)) as player:
        for name, fault in _FAULTS[deployment].items():
            assert player.play(RunHistory(name, fault)) == [], name
            actions = [passage["action"] for passage in player.passages if passage["action"]]
            assert actions == [fault.action], name
        assert find_violations(lane.read_rows()) == []


def test_every_step_of_a_run_is_an_existing_point() -> None:
    assert set(STEPS) <= {point.name for point in read_points()}


@pytest.mark.parametrize(
    ("seed", "seeds"),
    [
        ("7", ["7.0", "7.1"]),
        ("7.9", ["7.9"]),
        ("7.9-11", ["7.9", "7.10", "7.11"]),
    ],
)
def test_histories_of_a_seed_are_selected_by_their_numbers(seed: str, seeds: list[str]) -> None:
    assert list_seeds(2, seed) == seeds


def test_the_seed_alone_determines_a_history_and_the_histories_take_the_steps_in_turn() -> None:
    histories = [make_history(f"7.{number}") for number in range(len(STEPS))]
    assert histories == [make_history(f"7.{number}") for number in range(len(STEPS))]
    assert {history.fault.point for history in histories if history.fault} == set(STEPS)


def test_on_sqlite_no_connection_is_cut_and_no_other_node_continues() -> None:
    histories = [make_history(f"7.{number}", Deployment.SQLITE) for number in range(100)]
    assert "cut" not in {history.fault.action for history in histories if history.fault}
    assert all(history.restarts_at_once for history in histories)
