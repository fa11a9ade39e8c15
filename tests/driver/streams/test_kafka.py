"""Kafka as source and sink, with a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.support.kafka import KafkaBroker
from tests.support.stream_expectations import CHECKS, FAILING, job_rows, summarize
from tests.support.streams import StartRun, finish, read_rows
from tests.support.waiting import wait_until

from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

LAST = "TRIGGER AVAILABLE NOW"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return the name of a topic that belongs to the test."""
    return str(request.node.name).replace("[", ".").replace("]", "")[:100]


def send(spark: SparkSession, broker: KafkaBroker, topic: str, values: list[str]) -> None:
    """Write records with these values to a topic."""
    rows = spark.createDataFrame([(value,) for value in values], "value STRING")
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", broker.address)
    writer.option("topic", topic).save()


def receive(spark: SparkSession, broker: KafkaBroker, topic: str) -> list[str]:
    """Return the values of all records of a topic."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    records = reader.option("subscribe", topic).load()
    return [row["value"] for row in read_rows(records.selectExpr("CAST(value AS STRING)"))]


def source(broker: KafkaBroker, topic: str, columns: str = "", **options: str) -> str:
    given = {
        "kafka.bootstrap.servers": broker.address,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE STREAM records {columns} FROM kafka OPTIONS ({pairs})"


def save_to_memory(
    start: StartRun, definition: str, spark: SparkSession
) -> list[dict[str, object]]:
    finish(start(f"SAVE STREAM records TO memory IDENTIFIED BY seen {LAST}", definition))
    rows = read_rows(spark.table("seen"))
    spark.catalog.dropTempView("seen")
    return rows


def test_json_values_are_read_into_the_declared_columns(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    send(spark, broker, topic, ['{"id": 1, "name": "a", "more": 0}', '{"id": 2}', "no json"])
    rows = save_to_memory(start, source(broker, topic, "(id INT, name STRING)"), spark)

    assert sorted(rows, key=len) == [{}, {"id": 2}, {"id": 1, "name": "a"}]


def test_csv_values_are_read_with_the_options_of_csv(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    send(spark, broker, topic, ["1;x", "2;y"])
    columns, options = "(id INT, name STRING)", {"format": "csv", "sep": ";"}
    rows = save_to_memory(start, source(broker, topic, columns, **options), spark)

    assert sorted(rows, key=str) == [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]


def test_a_stream_without_columns_has_those_of_kafka(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    send(spark, broker, topic, ["x"])
    (row,) = save_to_memory(start, source(broker, topic), spark)

    assert (row["topic"], row["value"], row["offset"]) == (topic, "eA==", 0)


def test_rows_are_written_as_json(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str, numbers: str
) -> None:
    sink = (
        f"CREATE SINK out TO kafka OPTIONS ('kafka.bootstrap.servers' = '{broker.address}',"
        f" 'topic' = '{topic}')"
    )
    finish(start(f"SAVE STREAM numbers TO out {LAST}", numbers, sink))
    values = [json.loads(value) for value in receive(spark, broker, topic)]

    assert sorted(value["n"] for value in values) == list(range(10))
    assert set(values[0]) == {"n", "even"}


def test_avro_values_survive_the_way_through_kafka(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str, numbers: str
) -> None:
    options = (
        f"'kafka.bootstrap.servers' = '{broker.address}', 'topic' = '{topic}', 'format' = 'avro'"
    )
    finish(start(f"SAVE STREAM numbers TO kafka {LAST} OPTIONS ({options})", numbers))
    columns = "(n INT, even BOOLEAN)"
    rows = save_to_memory(start, source(broker, topic, columns, format="avro"), spark)

    assert sorted(int(str(row["n"])) for row in rows) == list(range(10))


def test_records_go_from_topic_to_topic_continuously(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    send(spark, broker, topic, [f'{{"id": {number}}}' for number in range(6)])
    # A topic exists from its first record on.
    send(spark, broker, f"{topic}.copy", ['{"id": -1}'])
    options = f"'kafka.bootstrap.servers' = '{broker.address}', 'topic' = '{topic}.copy'"
    save = f"SAVE STREAM records TO kafka TRIGGER CONTINUOUS 100 MILLISECONDS OPTIONS ({options})"

    def copy() -> set[int]:
        """Run the query for an epoch. The query holds both slots of Spark until it stops."""
        run = start(save, source(broker, topic, "(id INT)"))
        wait_until(lambda: run.wait() or run.find_new_epoch(), what="an epoch has been committed")
        run.stop()
        return {json.loads(value)["id"] for value in receive(spark, broker, f"{topic}.copy")}

    # The first epoch can end before its records have arrived.
    wait_until(lambda: copy() == set(range(-1, 6)), seconds=180, what="all records have arrived")


def test_a_topic_is_needed(start: StartRun, broker: KafkaBroker, numbers: str) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    options = f"'kafka.bootstrap.servers' = '{broker.address}'"
    with pytest.raises(RunFailed, match="kafka needs the option topic") as caught:
        start(f"SAVE STREAM numbers TO kafka OPTIONS ({options})", numbers)
    assert caught.value.is_permanent


def test_a_broker_that_does_not_answer_is_worth_a_retry(start: StartRun, numbers: str) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    options = (
        "'kafka.bootstrap.servers' = '127.0.0.1:9', 'topic' = 't', 'kafka.max.block.ms' = '1000'"
    )
    run = start(f"SAVE STREAM numbers TO kafka OPTIONS ({options})", numbers)
    with pytest.raises(RunFailed) as caught:
        finish(run)
    assert not caught.value.is_permanent


def test_expectations_on_records_are_counted_and_the_row_that_fails_is_not_sent(
    start: StartRun, spark: SparkSession, broker: KafkaBroker, topic: str, numbers: str
) -> None:
    sink = (
        f"CREATE SINK out TO kafka OPTIONS ('kafka.bootstrap.servers' = '{broker.address}',"
        f" 'topic' = '{topic}')"
    )
    save = f"SAVE STREAM numbers TO out IDENTIFIED BY checked {LAST}"
    run = start(save, numbers, sink, rows=job_rows(CHECKS))
    finish(run)
    assert summarize(run) == {0: (10, 3, 7, [(3, 0), (2, 1)])}
    assert run.lineage[-1].key == f"kafka://{broker.address} {topic}"
    assert len(receive(spark, broker, topic)) == 7
    nothing = "SELECT CAST(NULL AS INT) AS n, even FROM numbers"
    again = f"SAVE STREAM numbers TO out IDENTIFIED BY failing {LAST}"
    with pytest.raises(RunFailed, match="`numbered` by at least 1 row"):
        finish(start(again, numbers, sink, rows=job_rows(FAILING, nothing)))
    assert len(receive(spark, broker, topic)) == 7
