"""Spark's own words, out of a log."""

from __future__ import annotations

from headrace.spark_log import last_exception


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
