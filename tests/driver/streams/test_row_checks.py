"""Expectations on the rows of streaming queries: counted and dropped in the pass that writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.stream_expectations import CHECKS, FAILING, expect, job_rows, summarize
from tests.support.streams import StartRun, finish, forget_commits, read_rows

from headrace.driver.streams.row_checks import StreamRowChecks
from headrace.driver.streams.supervised_query import RunFailed
from headrace.model.expectation import OnViolation
from headrace.model.job import JobRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = "TRIGGER AVAILABLE NOW"
TABLE = "checked_stream"
TO_TABLE = f"SAVE STREAM numbers TO TABLE {TABLE} {NOW}"


@pytest.fixture
def _table(spark: SparkSession) -> Iterator[None]:
    spark.sql(f"CREATE TABLE {TABLE} (even BOOLEAN, n INT) USING parquet")
    yield
    spark.sql(f"DROP TABLE {TABLE}")


def add_number(folder: Path, value: str) -> None:
    (folder / "input" / f"{value}-more.json").write_text(f'{{"n": {value}, "even": true}}')


@pytest.mark.usefixtures("_table")
def test_a_batch_of_a_table_is_counted_and_a_batch_that_runs_again_has_the_same_counts(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    run = start(TO_TABLE, numbers, rows=job_rows(CHECKS))
    finish(run)
    first = summarize(run)
    # Three of ten rows are dropped; n = 9 and the NULL of n = 5 violate `small`.
    assert first == {0: (10, 3, 7, [(3, 0), (2, 1)])}
    stored = sorted(row["n"] for row in read_rows(spark.table(TABLE)))
    assert stored == list(range(3, 10))
    forget_commits(tmp_path)
    again = start(TO_TABLE, numbers, rows=job_rows(CHECKS))
    finish(again)
    # The INSERT repeats the rows of the batch. Its number shows the node that it is the same.
    assert summarize(again) == first
    assert spark.table(TABLE).count() == 14


@pytest.mark.usefixtures("_table")
def test_a_row_that_violates_fail_stops_the_batch_before_anything_is_published(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    finish(start(TO_TABLE, numbers, rows=job_rows(FAILING)))
    add_number(tmp_path, "10")
    add_number(tmp_path, "null")
    with pytest.raises(RunFailed) as caught:
        finish(start(TO_TABLE, numbers, rows=job_rows(FAILING)))
    assert caught.value.is_permanent
    assert caught.value.failure.code == "expectation_failed"
    assert "`numbered` by at least 1 row" in caught.value.failure.message
    assert spark.table(TABLE).count() == 10
    # The data is fixed: the batch runs again, with all its rows.
    (tmp_path / "input" / "null-more.json").write_text('{"n": 11, "even": true}')
    run = start(TO_TABLE, numbers, rows=job_rows(FAILING))
    finish(run)
    assert summarize(run) == {1: (2, 0, 2, [(0, 0)])}
    assert spark.table(TABLE).count() == 12


def test_the_batches_of_files_are_counted_and_a_skipped_one_is_not_known(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    save = f"SAVE STREAM numbers TO json {NOW}"
    run = start(save, numbers, rows=job_rows(CHECKS))
    finish(run)
    assert summarize(run) == {0: (10, 3, 7, [(3, 0), (2, 1)])}
    assert [each.key for each in run.lineage] == [
        f"file:{tmp_path}/input",
        f"file:{tmp_path}/default",
    ]
    # The driver was lost between the log of the files and that of the commits: Spark skips the
    # batch, whose rows are there.
    forget_commits(tmp_path)
    again = start(save, numbers, rows=job_rows(CHECKS))
    finish(again)
    assert summarize(again) == {0: None}
    assert spark.read.json(str(tmp_path / "default")).count() == 7
    add_number(tmp_path, "null")
    with pytest.raises(RunFailed, match="`numbered`"):
        finish(start(save, numbers, rows=job_rows(FAILING)))
    assert spark.read.json(str(tmp_path / "default")).count() == 7


def test_a_batch_without_rows_and_one_of_changed_groups_are_counted(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    def collect(sql: str, save: str) -> object:
        run = start(f"SAVE STREAM numbers TO memory {save}", numbers, rows=job_rows(CHECKS, sql))
        finish(run)
        return summarize(run)

    empty = collect("SELECT n, even FROM numbers WHERE n > 100", f"IDENTIFIED BY none {NOW}")
    assert empty == {0: (0, 0, 0, [(0, 0), (0, 0)])}
    never = collect("SELECT n, even FROM numbers WHERE false", f"IDENTIFIED BY never {NOW}")
    assert never == {0: (0, 0, 0, [(0, 0), (0, 0)])}
    counts = "SELECT count(*) AS n, even FROM numbers GROUP BY even HAVING count(*) > 0"
    groups = collect(counts, f"IDENTIFIED BY groups {NOW} OUTPUT MODE UPDATE")
    assert groups == {0: (2, 0, 2, [(0, 0), (2, 2)])}
    assert spark.table("groups").count() == 2
    for name in ("none", "never", "groups"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("missing > 0", "cannot be resolved"),
        ("n +", "Syntax error"),
        ("n", "is int, and not boolean"),
        ("n > avg(n) OVER ()", "needs other rows"),
    ],
    ids=["column", "syntax", "type", "window"],
)
def test_a_condition_that_is_not_possible_is_refused_before_the_start(
    start: StartRun, numbers: str, tmp_path: Path, condition: str, message: str
) -> None:
    rows = job_rows([expect(condition)])
    with pytest.raises(RunFailed, match=message) as caught:
        start(f"SAVE STREAM numbers TO json {NOW}", numbers, rows=rows)
    assert (caught.value.failure.code, caught.value.is_permanent) == ("invalid_expectation", True)
    assert not (tmp_path / "wal-numbers").exists()


def test_rows_that_are_no_stream_are_refused(start: StartRun, numbers: str) -> None:
    rows = JobRows(sql="SELECT 1 AS n", expectations=[expect("n > 0", OnViolation.DROP)])
    with pytest.raises(RunFailed, match="no stream") as caught:
        start(f"SAVE STREAM numbers TO json {NOW}", numbers, rows=rows)
    assert caught.value.failure.code == "invalid_expectation"


def test_counts_that_are_not_those_of_the_written_rows_are_not_known() -> None:
    checks = StreamRowChecks([expect("n > 0")])
    values = {"rows": 3, "kept": 3, "violations_0": 1, "nulls_0": 0}
    report = {"batchId": 0, "observedMetrics": {"__headrace_expectations": values}}
    assert checks.read_counts({**report, "sink": {"numOutputRows": 3}}) is not None
    # Spark has computed the rows more than once.
    assert checks.read_counts({**report, "sink": {"numOutputRows": 2}}) is None
    assert checks.read_counts({"batchId": 0}) is None
