"""Which errors of Java a restart of the query can repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.driver.spark_version.errors import is_permanent_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_method_that_is_missing_is_permanent(spark: SparkSession) -> None:
    errors = spark._jvm.java.lang
    missing = [
        errors.NoSuchMethodError("Sink.write"),
        errors.AbstractMethodError("Sink.commit, which a newer Spark calls"),
        errors.NoSuchFieldError("Sink.mode"),
        errors.NoSuchMethodException("Sink.<init>()"),
    ]

    for error in missing:
        assert is_permanent_cause(errors.RuntimeException("the sink failed", error))


def test_an_error_of_the_jvm_itself_is_worth_a_retry(spark: SparkSession) -> None:
    errors = spark._jvm.java.lang
    # So ends a lambda that the JVM fails to link, once in a long time.
    missing = errors.NoSuchMethodError("MethodHandle.linkToStatic")
    internal = errors.InternalError("no such method", missing)

    assert not is_permanent_cause(errors.RuntimeException("the sink failed", internal))
    assert not is_permanent_cause(errors.OutOfMemoryError("Java heap space"))
