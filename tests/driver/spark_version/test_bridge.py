"""Access to the objects of a JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import JavaPackage
from tests.support.jvm_calls import counted_calls
from tests.support.waiting import wait_until

from headrace.driver.spark_version.bridge import Py4JBridge, answer_without_delay, plan_class_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delays_of_connections(spark: SparkSession) -> list[bool]:
    """Return whether each connection of the JVM may wait before it sends an answer."""
    gateway: Any = spark.sparkContext._gateway
    server = gateway.java_gateway_server
    connections = Py4JBridge(spark).field(server, "connections", "py4j.GatewayServer")
    return [not each.getSocket().getTcpNoDelay() for each in list(connections.toArray())]


def test_each_thread_gets_answers_without_delay(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare() -> tuple[list[bool], list[bool], int]:
        before = delays_of_connections(spark)
        answer_without_delay(spark)
        after = delays_of_connections(spark)
        with counted_calls(monkeypatch) as commands:
            answer_without_delay(spark)
        return before, after, len(commands)

    with ThreadPoolExecutor(1) as pool:
        before, after, repeated = pool.submit(prepare).result()
    assert (any(before), any(after), repeated) == (True, False, 0)


def test_a_connection_that_is_closed_meanwhile_is_no_error(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    server = gateway.java_gateway_server
    connections = Py4JBridge(spark).field(server, "connections", "py4j.GatewayServer")
    with ThreadPoolExecutor(1) as pool:
        before = connections.size()
        pool.submit(answer_without_delay, spark).result()
        [closed] = list(connections.toArray())[before:]
        closed.shutdown()
        assert closed.getSocket() is None
        # The thread of the connection removes it from the list when it ends.
        wait_until(lambda: not connections.contains(closed))
        # As if it were closed while another thread has the list.
        connections.add(closed)
        with ThreadPoolExecutor(1) as other:
            other.submit(answer_without_delay, spark).result()
        connections.remove(closed)


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
