"""Large results run as SQL executions of Spark."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from tests.support.results import Writer
from tests.support.waiting import wait_until

from headrace.driver.spark_version.sql_execution import is_unreported, run_as_sql_execution

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Spark reads the policy in the tasks, because the format is not constant.
_LENIENT = """
SELECT to_timestamp(p.s, p.f) AS t
FROM (SELECT explode(array(named_struct('s', '2020-1-5', 'f', 'yyyy-MM-dd'))) AS p)
"""


def test_tasks_see_the_configuration_of_the_session(spark: SparkSession, writer: Writer) -> None:
    key = "spark.sql.legacy.timeParserPolicy"
    with pytest.raises(PySparkException, match="CANNOT_PARSE_TIMESTAMP"):
        writer.write(spark.sql(_LENIENT))
    spark.conf.set(key, "LEGACY")
    try:
        report, _ = writer.write(spark.sql(_LENIENT))
    finally:
        spark.conf.unset(key)
    assert report.row_count == 1


def test_a_large_result_is_an_execution_on_the_sql_page(
    spark: SparkSession, writer: Writer
) -> None:
    store: Any = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    description = uuid4().hex
    spark.sparkContext.setJobDescription(description)
    writer.write(spark.sql("SELECT explode(sequence(0, 99)) AS n"))
    spark.sparkContext.setJobDescription(None)

    def find() -> list[Any]:
        listed = store.executionsList()
        executions = [listed.apply(index) for index in range(listed.size())]
        return [each for each in executions if each.description() == description]

    # Spark lists executions in a thread of its own.
    wait_until(lambda: [each.completionTime().isDefined() for each in find()] == [True])
    assert find()[0].jobs().size() == 1


def test_an_execution_returns_the_value_or_the_error_of_its_action(spark: SparkSession) -> None:
    frame = spark.range(3)
    assert run_as_sql_execution(frame, lambda: run_as_sql_execution(frame, frame.count)) == 3

    with pytest.raises(KeyError, match="mine"):
        run_as_sql_execution(frame, _fail)
    assert run_as_sql_execution(frame, frame.count) == 3


def _fail() -> None:
    raise KeyError("mine")


def test_py4j_logs_no_error_that_the_caller_receives(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("py4j.clientserver")
    with pytest.raises(KeyError):
        run_as_sql_execution(spark.range(3), _fail)
    assert "mine" in caplog.text
    caplog.clear()
    logger.addFilter(is_unreported)
    try:
        with pytest.raises(KeyError):
            run_as_sql_execution(spark.range(3), _fail)
    finally:
        logger.removeFilter(is_unreported)
    # Nodes of other tests may log, too.
    assert [each for each in caplog.records if each.name.startswith("py4j")] == []


def test_executions_run_beside_the_callback_server_of_py4j(spark: SparkSession) -> None:
    """`foreachBatch` starts the server. Py4J then calls back in threads of its own."""
    ensure_callback_server_started(spark.sparkContext._gateway)
    frame = spark.range(3)
    assert run_as_sql_execution(frame, lambda: run_as_sql_execution(frame, frame.count)) == 3
    with pytest.raises(KeyError, match="mine"):
        run_as_sql_execution(frame, _fail)


def test_threads_run_executions_at_the_same_time(spark: SparkSession) -> None:
    both_run = threading.Barrier(2, timeout=120)

    def run(rows: int) -> int:
        frame = spark.range(rows)

        def count() -> int:
            both_run.wait()
            return frame.count()

        return run_as_sql_execution(frame, count)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, [5, 7])) == [5, 7]
