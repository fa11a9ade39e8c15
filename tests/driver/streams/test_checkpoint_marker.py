"""The marker in a checkpoint: two live queries never work on one, whatever its location hides."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import (
    LEASE,
    QUERY_ID,
    StartRun,
    find_no_other,
    finish,
    make_desired,
    read_rows,
)

from headrace.driver.link import NoNodeAnswers
from headrace.driver.streams.checkpoint_marker import MARKER, CheckpointClaims, FindMarked
from headrace.driver.streams.supervised_query import RunFailed
from headrace.errors import CheckpointInUse, CheckpointMarkerInvalid
from headrace.model.job_messages import RestoreSavepoint, TakeSavepoint
from headrace.model.messages import MarkedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SAVE = "SAVE STREAM numbers TO json TRIGGER AVAILABLE NOW"
OTHER_ID = f"sq_{2:032}"
Claim = Callable[..., None]


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    """Return the checkpoint of the query of these tests."""
    return tmp_path / "wal-numbers"


@pytest.fixture
def claim(spark: SparkSession, tmp_path: Path) -> Claim:
    """Return a function that claims the checkpoint as the driver of some epoch."""

    def claim(
        query_id: str = QUERY_ID, *, epoch: int = 1, find_marked: FindMarked = find_no_other
    ) -> None:
        desired = make_desired(SAVE, (), tmp_path, {}).model_copy(update={"id": query_id})
        CheckpointClaims(replace(LEASE, epoch=epoch), find_marked).claim(spark, desired)

    return claim


def find_live(name: str | None) -> FindMarked:
    return lambda _query_id, _marked_id: MarkedQuery(is_live=True, name=name)


def read_marker(wal: Path) -> dict[str, object]:
    marker: dict[str, object] = json.loads((wal / MARKER).read_text())
    return marker


def test_a_query_does_not_start_on_the_checkpoint_of_a_live_query_under_another_name(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path, wal: Path
) -> None:
    finish(start(SAVE, numbers))
    alias = tmp_path / "elsewhere" / "wal-numbers"
    alias.parent.symlink_to(tmp_path)
    before = sorted(wal.rglob("*"))
    asked = []

    def find_marked(query_id: str, marked_id: str) -> MarkedQuery:
        asked.append((query_id, marked_id))
        return MarkedQuery(is_live=True, name="adhoc.numbers")

    save = f"{SAVE} OPTIONS ('path' = '{tmp_path}/default')"
    with pytest.raises(RunFailed) as caught:
        start(save, numbers, folder=alias.parent, id=OTHER_ID, find_marked=find_marked)

    assert caught.value.is_permanent
    assert caught.value.failure.code == "checkpoint_in_use"
    assert f"adhoc.numbers ({QUERY_ID})" in caught.value.failure.message
    assert str(alias) in caught.value.failure.message
    assert asked == [(OTHER_ID, QUERY_ID)]
    assert sorted(wal.rglob("*")) == before
    # The first query continues, and Spark does not see the marker.
    (tmp_path / "input" / "10.json").write_text('{"n": 10, "even": true}')
    finish(start(SAVE, numbers, find_marked=find_marked, last_batch=0))
    rows = read_rows(spark.read.json(str(tmp_path / "default")))
    assert sorted(row["n"] for row in rows) == list(range(11))


def test_the_query_of_another_owner_is_not_named(claim: Claim) -> None:
    claim()
    with pytest.raises(CheckpointInUse, match="a query of another owner has marked it") as caught:
        claim(OTHER_ID, find_marked=find_live(None))

    assert QUERY_ID not in caught.value.message


def test_the_checkpoint_of_an_ended_query_can_be_taken_over(claim: Claim, wal: Path) -> None:
    claim(epoch=7)
    claim(OTHER_ID)

    expected = {"format": 1, "query": OTHER_ID, "session": LEASE.session_id, "epoch": 1}
    assert read_marker(wal) == expected


def test_a_newer_driver_takes_over_the_query_and_an_older_one_stops(
    claim: Claim, wal: Path
) -> None:
    refuse = find_live("adhoc.numbers")
    claim(epoch=3, find_marked=refuse)
    claim(epoch=4, find_marked=refuse)
    claim(epoch=4, find_marked=refuse)
    with pytest.raises(CheckpointInUse, match="a newer driver"):
        claim(epoch=3, find_marked=refuse)

    assert read_marker(wal)["epoch"] == 4


def test_a_copy_made_by_a_savepoint_belongs_to_no_query(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path, wal: Path
) -> None:
    from headrace.driver.jobs.savepoints import restore_savepoint, take_savepoint

    finish(start(SAVE, numbers))
    copy, restored = str(tmp_path / "savepoint"), tmp_path / "restored"
    take_savepoint(spark, TakeSavepoint(checkpoint=str(wal), queries=[""], savepoint=copy))
    task = RestoreSavepoint(savepoint=copy, checkpoint=str(restored / "wal-numbers"))
    restore_savepoint(spark, task)
    assert not list(restored.rglob(f"*{MARKER}*"))

    finish(start(SAVE, numbers, folder=restored, id=OTHER_ID, find_marked=find_live("x")))
    assert read_marker(restored / "wal-numbers")["query"] == OTHER_ID


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "damaged"),
        (b'{"format": 1, "query": "sq_', "damaged"),
        (b"[]", "damaged"),
        (b"\xff\x00", "damaged"),
        (b"[" * 60_000, "damaged"),
        (b" " * 100_000, "damaged"),
        (b'{"format": 1, "query": "../x", "session": "s", "epoch": -1}', "damaged"),
        (b'{"format": 2, "owners": []}', "A newer version of Headrace"),
        (None, "damaged"),
    ],
    ids=["empty", "cut", "list", "binary", "nested", "large", "names", "newer", "directory"],
)
def test_a_marker_that_cannot_be_read_stops_the_query_and_stays(
    claim: Claim, wal: Path, content: bytes | None, problem: str
) -> None:
    marker = wal / MARKER
    wal.mkdir()
    if content is None:
        marker.mkdir()
    else:
        marker.write_bytes(content)
    with pytest.raises(CheckpointMarkerInvalid, match=problem) as caught:
        claim()

    assert str(marker) in caught.value.message
    assert "elete the file" in caught.value.message
    assert content is None or marker.read_bytes() == content


def test_a_query_starts_later_if_no_node_answers_about_the_marker(claim: Claim, wal: Path) -> None:
    def find_marked(_query_id: str, _marked_id: str) -> MarkedQuery:
        raise NoNodeAnswers("No node has answered.")

    claim()
    with pytest.raises(RunFailed, match="No node has answered") as caught:
        claim(OTHER_ID, find_marked=find_marked)

    assert not caught.value.is_permanent
    assert read_marker(wal)["query"] == QUERY_ID
