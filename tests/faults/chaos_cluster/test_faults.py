"""The faults of a seed are always the same, and one node always stays healthy."""

from __future__ import annotations

from itertools import islice

from tests.faults.chaos_cluster.faults import FaultKind, FaultyNodes, plan_faults


def test_a_seed_gives_the_same_faults_again() -> None:
    assert list(islice(plan_faults("7"), 30)) == list(islice(plan_faults("7"), 30))
    assert list(islice(plan_faults("7"), 30)) != list(islice(plan_faults("8"), 30))


def test_every_kind_of_fault_happens_before_any_is_repeated() -> None:
    kinds = [fault.kind for fault in islice(plan_faults("7"), 3 * len(FaultKind))]
    for begin in range(0, len(kinds), len(FaultKind)):
        assert set(kinds[begin : begin + len(FaultKind)]) == set(FaultKind)


def test_one_of_three_nodes_stays_healthy() -> None:
    faulty = FaultyNodes(3)
    assert faulty.add(1, seconds=0)
    assert not faulty.add(1, seconds=0)
    assert faulty.add(2, seconds=0)
    assert not faulty.add(3, seconds=0)

    faulty.remove(1)

    assert faulty.add(3, seconds=0)
