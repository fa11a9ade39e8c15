"""The driver's Spark session as the driver looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.driver.spark import Spark, last_exception

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_streaming_queries_are_counted_while_they_run(spark: SparkSession) -> None:
    held = Spark.__new__(Spark)
    held.session = spark
    assert held.streams() == 0
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        assert held.streams() == 1
    finally:
        query.stop()
    assert held.streams() == 0


def test_the_last_exception_of_a_log_is_found() -> None:
    log = (
        "26/11/21 WARN Utils: java.net.X is no exception of ours\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must be known\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1065)\n"
    )
    assert last_exception(log) == "org.apache.spark.SparkException: Master must be known"
    caused = log + "Caused by: java.io.IOException: no disk\n\tat x\n"
    assert last_exception(caused) == "java.io.IOException: no disk"
    assert last_exception("all is well\n") is None
