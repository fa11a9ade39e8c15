"""A query that fails says why: its failure is the cause, and no stack trace around the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.streams import QUERY_ID, StartRun, finish

from headrace.driver.failures import describe_failure
from headrace.driver.streams.supervised_query import RunFailed
from headrace.model.messages import AnnounceWrites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TO_JDBC = "CREATE SINK db TO jdbc OPTIONS ('url' = '{url}', 'dbtable' = 't'{driver})"
SAVE = "SAVE STREAM {stream} TO {sink} TRIGGER AVAILABLE NOW"


def fail(start: StartRun, save: str, *definitions: str) -> RunFailed:
    """Return how a run fails, at its start or later."""
    with pytest.raises(RunFailed) as caught:
        finish(start(save, *definitions))
    return caught.value


@pytest.fixture
def failing_function(spark: SparkSession) -> str:
    """Register a function of Python that fails, and return its name."""

    def refuse(number: int) -> int:
        raise KeyError(f"no {number}")

    spark.udf.register("refuse", refuse, "int")
    return "refuse"


@pytest.mark.parametrize(
    ("url", "driver", "reason"),
    [
        ("jdbc:h2:mem:x", "", "jdbc:h2, because the class org.h2.Driver is missing"),
        ("jdbc:acme:x", ", 'driver' = 'acme.Db'", "because the class acme.Db is missing"),
        ("jdbc:acme://u:secret@db/x", "", "to jdbc:acme, because no driver accepts the URL"),
    ],
)
def test_a_missing_driver_of_a_database_is_refused_at_the_start(
    start: StartRun, numbers: str, url: str, driver: str, reason: str
) -> None:
    sink = TO_JDBC.format(url=url, driver=driver)
    error = fail(start, SAVE.format(stream="numbers", sink="db"), numbers, sink)

    assert error.is_permanent
    assert error.failure.code == "invalid_stream"
    assert reason in error.failure.message
    assert "secret" not in error.failure.message


def test_a_batch_that_spark_refuses_is_not_repeated(
    start: StartRun, numbers: str, stream_session: SparkSession
) -> None:
    stream_session.sql("CREATE TABLE dates (n DATE, even BOOLEAN) USING parquet")
    try:
        error = fail(start, SAVE.format(stream="numbers", sink="TABLE dates"), numbers)
    finally:
        stream_session.sql("DROP TABLE dates")

    assert error.is_permanent
    assert error.failure.condition == "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"
    assert error.failure.message.startswith("Cannot write incompatible data")


@pytest.mark.parametrize("sink", ["noop", "TABLE target"])
def test_an_error_of_a_python_function_is_the_message(
    start: StartRun, numbers: str, failing_function: str, sink: str, stream_session: SparkSession
) -> None:
    refused = f"CREATE STREAM refused AS SELECT {failing_function}(n) AS n FROM numbers"
    try:
        error = fail(start, SAVE.format(stream="refused", sink=sink), numbers, refused)
    finally:
        stream_session.sql("DROP TABLE IF EXISTS target")

    assert not error.is_permanent
    assert error.failure.message.startswith("KeyError: 'no ")
    assert "\n" not in error.failure.message
    assert "Traceback" in str(error.failure.trace)


def test_an_error_of_a_python_function_is_the_message_of_a_statement(
    spark: SparkSession, failing_function: str
) -> None:
    text = f"SELECT {failing_function}(7)"
    with pytest.raises(Exception, match="no 7") as caught:
        spark.sql(text)._jdf.collectToPython()

    assert describe_failure(caught.value, text).message == "KeyError: 'no 7'"


@pytest.mark.parametrize("sink", ["TABLE announced", "noop"])
def test_a_query_announces_the_table_of_files_in_which_its_batches_stage(
    start: StartRun,
    numbers: str,
    stream_session: SparkSession,
    announced: list[AnnounceWrites],
    sink: str,
) -> None:
    try:
        finish(start(SAVE.format(stream="numbers", sink=sink), numbers))
    finally:
        stream_session.sql("DROP TABLE IF EXISTS announced")

    tables = [(each.query_id, write.table) for each in announced for write in each.writes]
    assert tables == ([] if sink == "noop" else [(QUERY_ID, "`default`.`announced`")])
