"""The driver's Spark session as the driver looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.driver.spark import Spark

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
