"""Java classes that the driver compiles in its JVM."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace.driver.spark_version.bridge import compile_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = 4


def test_threads_that_need_a_class_at_the_same_time_get_one_object(spark: SparkSession) -> None:
    start = threading.Barrier(THREADS)

    def compile_at_once(_number: int) -> Any:
        start.wait()
        return compile_java(spark._jvm, "EmptyClass", "tests.driver.spark_version")

    with ThreadPoolExecutor(THREADS) as pool:
        first, *others = pool.map(compile_at_once, range(THREADS))
    assert all(each is first for each in others)
