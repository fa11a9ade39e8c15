"""The plan, the metrics and the stages of statements, as Spark's stores have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.support.jvm_calls import counted_calls

from headrace.driver.spark_version import metrics
from headrace.grammar.masking import mask_text
from headrace.model.execution import SparkStage, SparkStageState, StatementExecution
from headrace.model.ids import new_id
from headrace.model.text import hide_before_cuts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.spark import Spark

SHUFFLE = "SELECT k, count(*) FROM (SELECT id % 7 AS k FROM range(0, 100000, 1, 4)) GROUP BY k"
FAILING = f"SELECT raise_error('wrong') FROM ({SHUFFLE})"


@contextmanager
def tagged(spark: SparkSession) -> Iterator[str]:
    tag = new_id("st")
    spark.sparkContext.addJobTag(tag)
    try:
        yield tag
    finally:
        spark.sparkContext.removeJobTag(tag)


def execute(spark: SparkSession, text: str) -> None:
    """Run a query. The `collect` of Python leaves a socket behind."""
    spark.sql(text)._jdf.collectAsList()


def run(driver_spark: Spark, *texts: str) -> StatementExecution | None:
    with tagged(driver_spark.session) as tag:
        for text in texts:
            execute(driver_spark.session, text)
    return driver_spark.executions.read(tag)


def test_a_shuffle_has_its_exchange_and_two_stages_with_their_bytes(driver_spark: Spark) -> None:
    execution = run(driver_spark, SHUFFLE)
    assert execution is not None
    assert execution.plan is not None
    assert execution.plan.startswith("== Physical Plan ==\nAdaptiveSparkPlan")
    assert "isFinalPlan=true" in execution.plan
    assert "Exchange" in execution.plan

    writing, reading = execution.stages
    assert writing.id < reading.id
    assert (writing.tasks_total, writing.tasks_done, writing.rows_read) == (4, 4, 100_000)
    assert writing.shuffle_rows_written == reading.shuffle_rows_read == 28
    assert writing.shuffle_bytes_written == reading.shuffle_bytes_read > 0
    for stage in execution.stages:
        assert stage.state is SparkStageState.COMPLETE
        assert stage.failure is None
        assert stage.median_task_seconds is not None
        assert stage.longest_task_seconds is not None
        assert 0 <= stage.median_task_seconds <= stage.longest_task_seconds
        assert stage.started_at is not None
        assert stage.ended_at is not None
        assert stage.started_at <= stage.ended_at

    names = [operator.name for operator in execution.operators]
    assert names[0] == "AdaptiveSparkPlan"
    assert names.index("Exchange") < names.index("Range")
    [leaf] = [operator for operator in execution.operators if operator.name == "Range"]
    assert leaf.metrics == {"number of output rows": "100,000"}
    assert leaf.depth == len(names) - 1
    assert (execution.stages_omitted, execution.operators_omitted) == (0, 0)


def test_a_failed_statement_keeps_its_stages_and_why_one_has_failed(driver_spark: Spark) -> None:
    with tagged(driver_spark.session) as tag, pytest.raises(PySparkException):
        execute(driver_spark.session, FAILING)
    execution = driver_spark.executions.read(tag)
    assert execution is not None
    complete, failed = execution.stages
    assert complete.state is SparkStageState.COMPLETE
    assert failed.state is SparkStageState.FAILED
    assert failed.tasks_failed > 0
    assert failed.failure is not None
    assert "wrong" in failed.failure
    assert (failed.median_task_seconds, failed.longest_task_seconds) == (None, None)


def test_a_statement_without_a_job_has_no_execution(driver_spark: Spark) -> None:
    assert driver_spark.executions.read(new_id("st")) is None


def test_the_plans_of_several_executions_follow_one_another(driver_spark: Spark) -> None:
    execution = run(driver_spark, SHUFFLE, SHUFFLE)
    assert execution is not None
    assert execution.plan is not None
    assert execution.plan.count("== Physical Plan ==") == 2
    assert [operator.depth for operator in execution.operators].count(0) == 2
    assert len(execution.stages) == 4


def test_a_job_without_a_plan_has_stages_only(driver_spark: Spark) -> None:
    with tagged(driver_spark.session) as tag:
        context = driver_spark.session.sparkContext
        rows = context._jvm.java.util.ArrayList()
        rows.add(1)
        context._jsc.parallelize(rows, 2).count()
    execution = driver_spark.executions.read(tag)
    assert execution is not None
    assert (execution.plan, execution.operators) == (None, [])
    assert [stage.tasks_done for stage in execution.stages] == [2]


def test_failed_stages_and_those_with_the_longest_run_are_kept(
    driver_spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_STAGES", 2)
    monkeypatch.setattr(metrics, "MAX_OPERATORS", 3)
    slow = "SELECT reflect('java.lang.Thread', 'sleep', 300L) FROM range(0, 1, 1, 1)"
    with tagged(driver_spark.session) as tag:
        for text in (SHUFFLE, slow, SHUFFLE, FAILING):
            if text == FAILING:
                with pytest.raises(PySparkException):
                    execute(driver_spark.session, text)
            else:
                execute(driver_spark.session, text)
    execution = driver_spark.executions.read(tag)
    assert execution is not None
    kept: list[SparkStage] = execution.stages
    assert [stage.state.value for stage in kept] == ["complete", "failed"]
    assert kept[0].run_seconds >= 0.3
    assert (execution.stages_omitted, len(execution.operators)) == (5, 3)
    assert execution.operators_omitted > 3


@pytest.fixture
def hiding() -> Iterator[Callable[[str], str]]:
    hide_before_cuts(mask_text)
    yield mask_text
    hide_before_cuts(None)


@pytest.mark.usefixtures("hiding")
def test_a_plan_has_no_secrets_that_it_names(driver_spark: Spark) -> None:
    execution = run(
        driver_spark,
        "SELECT count(*) FROM range(9) WHERE CAST(id AS STRING) <> 'jdbc:x?password=hunter22'",
    )
    assert execution is not None
    assert execution.plan is not None
    assert "hunter22" not in execution.model_dump_json()
    assert "password=*********(redacted)" in execution.plan


def test_all_is_read_in_few_calls(driver_spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    with tagged(driver_spark.session) as tag:
        execute(driver_spark.session, SHUFFLE)
    driver_spark.executions.read(tag)
    with counted_calls(monkeypatch) as commands:
        driver_spark.executions.read(tag)
    assert len(commands) <= 2, commands


def test_a_spark_in_which_the_class_does_not_compile_costs_one_attempt(
    driver_spark: Spark, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_arguments: object) -> None:
        raise Py4JError("a vendor's Spark")

    metrics._find_class.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(metrics, "compile_java", refuse)
        assert run(driver_spark, SHUFFLE) is None
        assert run(driver_spark, SHUFFLE) is None
    metrics._find_class.cache_clear()
    assert caplog.text.count("statements have no plan and stages: a vendor's Spark") == 1
