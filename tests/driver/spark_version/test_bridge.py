"""Access to the objects of a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.java_gateway import JavaPackage

from headrace.driver.spark_version.bridge import Py4JBridge, plan_class_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_bridges_to_one_jvm_share_its_classes_and_objects(spark: SparkSession) -> None:
    first, second = Py4JBridge(spark), Py4JBridge(spark.newSession())
    assert first.type("java.util.UUID") is second.type("java.util.UUID")
    name = "scala.collection.immutable.Nil"
    assert first.singleton(name) is second.singleton(name)


def test_a_class_that_a_later_jar_may_bring_is_looked_up_again(spark: SparkSession) -> None:
    jvm = Py4JBridge(spark)
    missing = jvm.type("org.example.Missing")
    assert isinstance(missing, JavaPackage)
    assert jvm.type("org.example.Missing") is not missing
    assert jvm.singleton("org.example.Missing") is not jvm.singleton("org.example.Missing")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CREATE TABLE t USING parquet AS SELECT 1 AS x", "CreateTableAsSelect"),
        ("INSERT INTO t VALUES (1)", "InsertIntoStatement"),
        ("BEGIN SELECT 1; END", "CompoundBody"),
    ],
)
def test_the_class_of_a_plan_has_a_name(spark: SparkSession, text: str, name: str) -> None:
    plan = Py4JBridge(spark).state.sqlParser().parsePlan(text)
    assert plan_class_name(plan) == name == plan.getClass().getSimpleName()
