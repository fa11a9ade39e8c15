"""Executions: a result that cannot be stored does not undo a commit; threads run several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.ctas import STATEMENT
from tests.support.journal import JournalLink
from tests.support.streams import read_rows

from headrace.driver import hooks
from headrace.driver.ctas.transaction import TransactionHook
from headrace.driver.execute import Execution
from headrace.driver.execution_plan import ExecutionPlan
from headrace.driver.hooks import StatementFacts, StatementHook
from headrace.errors import HeadraceError
from headrace.grammar.parse import parse
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment
from headrace.model.result import Disposition, ResultRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.spark import Spark


class PublishedHook:
    """The hook of a statement that its catalog has committed, or not."""

    def __init__(self, *, commits_natively: bool, is_published: bool) -> None:
        self.commits_natively = commits_natively
        self._is_published = is_published

    def must_roll_forward(self) -> bool:
        return self._is_published


def write_result(spark: SparkSession, hook: PublishedHook) -> tuple[Any, str | None]:
    """Write the result of an UPDATE to a location that does not exist; return it with the note."""
    assignment = Assignment(
        statement_id=STATEMENT,
        text="UPDATE t SET a = 1",
        parameters=[],
        conf={},
        result_request=ResultRequest(disposition=Disposition.STORED),
        result_location="/proc/nowhere/result",
        is_query=False,
        attempt=1,
    )
    execution = Execution(cast("Any", None), JournalLink().as_link(), assignment, cast("Any", None))
    execution._frame = spark.sql("SELECT 3 AS num_affected_rows")
    plan = ExecutionPlan(run=spark.sql, hook=cast("TransactionHook", hook))
    return execution._write_result(plan, spark), execution._note


def test_a_result_that_cannot_be_stored_does_not_undo_a_native_commit(spark: SparkSession) -> None:
    hook = PublishedHook(commits_natively=True, is_published=True)
    report, note = write_result(spark, hook)
    assert (report.disposition, report.row_count) == (Disposition.INLINE, 0)
    assert note is not None
    assert "could not be stored" in note


@pytest.mark.parametrize("commits_natively", [False, True])
def test_a_result_that_cannot_be_stored_fails_a_statement_without_a_commit(
    spark: SparkSession, commits_natively: bool
) -> None:
    hook = PublishedHook(commits_natively=commits_natively, is_published=not commits_natively)
    with pytest.raises(HeadraceError):
        write_result(spark, hook)


def test_a_thread_runs_its_next_statement_without_the_tag_of_this_one(
    driver_spark: Spark,
) -> None:
    first, second = (f"st_{number:032}" for number in (1, 2))
    for statement_id in (first, second):
        assignment = Assignment(
            statement_id=statement_id,
            text="SELECT count(*) FROM range(9)",
            parameters=[],
            conf={},
            result_request=ResultRequest(),
            is_query=True,
            attempt=1,
        )
        link = JournalLink().as_link()
        execution = Execution(driver_spark, link, assignment, cast("Any", None))
        ended = execution.run()
        execution.remove_job_tag()
        assert ended.progress is not None
        assert ended.state is StatementState.SUCCESS
    jobs = [set(driver_spark.progress.find_jobs(each)) for each in (first, second)]
    assert all(jobs)
    assert jobs[0].isdisjoint(jobs[1])


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE explained USING parquet AS SELECT 1 AS a",
        "CREATE TEMPORARY VIEW explained AS SELECT 1 AS a",
        "SET spark.sql.shuffle.partitions = 77",
        "DROP TABLE IF EXISTS explained",
        "INSERT INTO kept VALUES (2)",
        "TRUNCATE TABLE kept",
    ],
)
def test_an_explain_changes_nothing(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """It counts as a pure query, which may run twice and beside others."""
    spark.sql(f"CREATE TABLE kept USING parquet LOCATION '{tmp_path / 'kept'}' AS SELECT 1 AS a")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert read_rows(spark.sql(f"EXPLAIN {text}"))
    assert parse(f"EXPLAIN {text}").is_query
    assert not spark.catalog.tableExists("explained")
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert read_rows(spark.table("kept")) == [{"a": 1}]
    spark.sql("DROP TABLE kept")


class EndsHook(StatementHook):
    """Records which method ends the statement."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def on_created(self, statement: StatementFacts) -> None:
        self._calls.append("created")
        raise ValueError("a veto of a statement that is refused already")

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:
        self._calls.append(f"failed by {type(error).__name__}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELEC 1", "ParseException"),
        ("BEGIN CREATE TABLE refused AS SELECT 1 AS a; END", "AtomicityRequired"),
    ],
)
def test_hooks_see_the_failure_of_a_statement_that_is_refused_before_it_runs(
    driver_spark: Spark, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(hooks, "_load_factories", lambda: [lambda _facts: EndsHook(calls)])
    monkeypatch.setattr(driver_spark, "is_alive", lambda **_: True)
    monkeypatch.setattr(driver_spark, "has_stopped", lambda: False)
    assignment = Assignment(
        statement_id=STATEMENT,
        text=text,
        parameters=[],
        conf={"headrace.ctas.atomicity": "require"},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
    )
    link = JournalLink().as_link()
    execution = Execution(driver_spark, link, assignment, cast("Any", None))
    ended = execution.run()
    execution.remove_job_tag()
    assert ended.state is StatementState.FAILED
    assert calls == ["created", f"failed by {error}"]
