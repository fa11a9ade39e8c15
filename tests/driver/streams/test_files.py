"""Files as sources and sinks of streaming queries, in every format."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import StartRun, finish, forget_commits, read_rows

from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]  # Avro is among the jars of the catalogs.

NOW = "TRIGGER AVAILABLE NOW"
LINES = "CREATE STREAM lines AS SELECT even, concat('line ', n) AS line FROM numbers"


@pytest.mark.parametrize("format_", ["csv", "orc", "avro", "parquet"])
def test_rows_survive_the_way_through_files(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path, format_: str
) -> None:
    save = f"SAVE STREAM numbers TO {format_} {NOW} PARTITIONED ON (even)"
    finish(start(save, numbers))
    forget_commits(tmp_path)
    finish(start(save, numbers))
    folder = tmp_path / "default"
    assert {path.name for path in folder.glob("even=*")} == {"even=true", "even=false"}

    copy = f"CREATE STREAM copy (n INT, even BOOLEAN) FROM {format_} OPTIONS ('path' = '{folder}')"
    finish(start(f"SAVE STREAM copy TO memory IDENTIFIED BY seen {NOW}", copy))
    rows = read_rows(spark.table("seen"))
    spark.catalog.dropTempView("seen")
    assert sorted(rows, key=lambda row: row["n"]) == [
        {"n": n, "even": n % 2 == 0} for n in range(10)
    ]


def test_lines_survive_the_way_through_text_files(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    finish(start(f"SAVE STREAM lines TO text {NOW} PARTITIONED ON (even)", numbers, LINES))
    copy = f"CREATE STREAM copy FROM text OPTIONS ('path' = '{tmp_path}/default/even=true')"
    finish(start(f"SAVE STREAM copy TO memory IDENTIFIED BY seen {NOW}", copy))

    rows = read_rows(spark.table("seen"))
    spark.catalog.dropTempView("seen")
    assert sorted(row["value"] for row in rows) == [f"line {n}" for n in range(0, 10, 2)]


@pytest.mark.parametrize(
    ("save", "message"),
    [
        ("SAVE STREAM lines TO text", "writes one column of strings.* has 2: even, line"),
        ("SAVE STREAM lines(even BOOLEAN) TO text", 'column `even` of the type "BOOLEAN"'),
        ("SAVE STREAM lines TO csv PARTITIONED ON (line, even)", "At least one must stay"),
        ("SAVE STREAM lists TO csv", 'column `list` of the type "ARRAY<INT>"'),
    ],
)
def test_files_that_cannot_hold_the_rows_are_refused_before_the_query_starts(
    start: StartRun, numbers: str, tmp_path: Path, save: str, message: str
) -> None:
    lists = "CREATE STREAM lists AS SELECT array(n) AS list FROM numbers"
    with pytest.raises(RunFailed, match=message) as caught:
        start(save, numbers, LINES, lists)

    assert caught.value.is_permanent
    assert list(tmp_path.glob("wal-*")) == []


def test_a_run_whose_files_are_ahead_of_its_checkpoint_is_refused(
    start: StartRun, numbers: str, tmp_path: Path
) -> None:
    save = "SAVE STREAM numbers TO json TRIGGER AVAILABLE NOW"
    finish(start(save, numbers))
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "wal-numbers", saved)
    (tmp_path / "input" / "10.json").write_text('{"n": 10, "even": true}')
    finish(start(save, numbers))
    shutil.rmtree(tmp_path / "wal-numbers")
    shutil.copytree(saved, tmp_path / "wal-numbers")

    with pytest.raises(
        RunFailed, match=r"has batches up to 1, and the checkpoint .* up to 0"
    ) as older:
        start(save, numbers)
    shutil.rmtree(tmp_path / "wal-numbers")
    with pytest.raises(RunFailed, match="this run begins without state") as without:
        start(save, numbers)

    assert older.value.is_permanent
    assert without.value.is_permanent


def test_a_query_whose_checkpoint_is_gone_does_not_begin_anew(
    start: StartRun, numbers: str, tmp_path: Path
) -> None:
    save = "SAVE STREAM numbers TO noop TRIGGER AVAILABLE NOW"
    finish(start(save, numbers))
    finish(start(save, numbers, last_batch=0))
    shutil.rmtree(tmp_path / "wal-numbers")
    with pytest.raises(
        RunFailed, match=r"has committed batch 0, and its checkpoint .* not exist"
    ) as gone:
        start(save, numbers, last_batch=0)

    assert gone.value.is_permanent
