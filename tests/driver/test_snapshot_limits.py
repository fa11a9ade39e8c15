"""A snapshot stays small enough for a report, and names the parts that it does not hold."""

from __future__ import annotations

import pytest

from headrace.driver.spark_version import session_state
from headrace.driver.state import TOTAL_LIMIT, limit_snapshot
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry

pytestmark = pytest.mark.finding("S8")
MIB = 1024 * 1024


def make_entry(name: str, size: int) -> SnapshotEntry:
    return session_state.make_entry(name, EntryForm.JAVA, "x" * size)


def make_snapshot(*, conf: dict[str, str], variables: list[SnapshotEntry]) -> Snapshot:
    views = [make_entry("v", 10)]
    return Snapshot.model_construct(
        conf=conf,
        catalog="c",
        namespace=["d"],
        variables=variables,
        views=views,
        unsaved=["view w: Spark keeps no SQL text for it"],
    )


def test_a_small_snapshot_is_kept_as_it_is() -> None:
    snapshot = make_snapshot(conf={"a": "b"}, variables=[make_entry("x", MIB)])
    assert limit_snapshot(snapshot) == snapshot


def test_a_part_that_is_too_large_is_listed_as_unsaved() -> None:
    conf = {"small": "1", "spark.big": "c" * 5 * MIB}
    variables = [make_entry("huge", 20 * MIB), make_entry("x", 10)]
    limited = limit_snapshot(make_snapshot(conf=conf, variables=variables))
    assert limited.conf == {"small": "1"}
    assert [entry.name for entry in limited.variables] == ["x"]
    assert [entry.name for entry in limited.views] == ["v"]
    assert limited.unsaved == [
        "view w: Spark keeps no SQL text for it",
        "setting spark.big: it is larger than 4 MiB",
        "variable huge: it is larger than 4 MiB",
    ]


def test_many_parts_are_limited_together() -> None:
    variables = [make_entry(f"x{number}", 3 * MIB) for number in range(4)]
    limited = limit_snapshot(make_snapshot(conf={}, variables=variables))
    assert [entry.name for entry in limited.variables] == ["x0", "x1"]
    assert len(limited.model_dump_json()) < TOTAL_LIMIT
    assert "variable x3: the state of the session is larger than 8 MiB" in limited.unsaved


def test_more_parts_than_a_report_may_have_are_listed_as_unsaved() -> None:
    variables = [make_entry(f"x{number}", 1) for number in range(10_001)]
    limited = limit_snapshot(make_snapshot(conf={}, variables=variables))
    assert len(limited.variables) == 10_000
    assert limited.unsaved[1:] == [
        "variable x10000: a snapshot holds at most 10,000 parts of a kind"
    ]
