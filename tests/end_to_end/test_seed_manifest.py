"""The manifest of the seed's own documentation, deployed unchanged on a real Kafka broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.support.jobs import CountingJob
from tests.support.kafka import KafkaBroker, kafka_jars
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

from headrace.model.job import METADATA_COLUMNS

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
# From the seed's section "SQL job definition". Only the indentation of the query was lost there.
MANIFEST = """\
---
name: query-unique-name
description: "Some description."
target-table: "`kafka`.`some-kafka-table-name`"
sql: >-
  SELECT
  `column_a`,
  `column_b`,
  `column_c`,
  `record_time`
  FROM
  `kafka`.`some-kafka-input-table`
  WHERE
  `column_d` = 'SOME_VALUE'
flinkProperties: { }
"""
TEMPLATE = """\
flinkProperties:
  execution.checkpointing.interval: 1s
  restart-strategy: fixed-delay
  restart-strategy.fixed-delay.attempts: '2147483647'
  restart-strategy.fixed-delay.delay: 60s
  state.backend: rocksdb
  state.backend.incremental: 'true'
  state.checkpoints.dir: s3://some-s3-bucket/flink-sql-runner/checkpoints/query-unique-name/
  state.checkpoints.num-retained: '3'
"""
DEFINITIONS = """\
CREATE STREAM `kafka`.`some-kafka-input-table`
  (column_a STRING, column_b INT, column_c STRING, column_d STRING, record_time TIMESTAMP)
  FROM kafka
  OPTIONS ('kafka.bootstrap.servers' = '{address}', 'subscribe' = 'seed-input',
           'startingOffsets' = 'earliest');
CREATE SINK `kafka`.`some-kafka-table-name` TO kafka
  OPTIONS ('kafka.bootstrap.servers' = '{address}', 'topic' = 'seed-output');
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path / "kafka")
    yield broker
    broker.stop()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    jars = ",".join(map(str, kafka_jars()))
    profile = {"default": {"conf": {"spark.jars": jars}}}
    process = NodeProcess(tmp_path / "home", PROFILES=json.dumps(profile))
    yield process
    process.close()


class SeedJob(CountingJob):
    """The seed's job instead of a counting one."""

    def __init__(self, node: NodeProcess, folder: Path, broker: KafkaBroker) -> None:
        super().__init__(node, folder, name="query-unique-name")
        self._broker = broker

    def request(self, **fields: Any) -> dict[str, Any]:
        text = DEFINITIONS.format(address=self._broker.address)
        return {
            "manifests": [{"path": "query-unique-name.yaml", "text": MANIFEST}],
            "template": {"path": "job-template.yaml", "text": TEMPLATE},
            "definitions": [{"path": "kafka.sql", "text": text}],
            "state_location": str(self.folder / "state"),
            **fields,
        }


def produce(broker: KafkaBroker, values: list[str]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
    for number, value in enumerate(values):
        record = {
            "column_a": f"a{number}",
            "column_b": number,
            "column_c": "c",
            "column_d": value,
            "record_time": "2022-12-07T08:57:42.000Z",
        }
        producer.produce("seed-input", json.dumps(record))
    assert producer.flush(60) == 0


def consume(broker: KafkaBroker, count: int) -> list[dict[str, Any]]:
    """Return the first records of the output."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": True,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe(["seed-output"])
    rows: list[dict[str, Any]] = []

    def has_all() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            rows.append(json.loads(message.value()))
        return len(rows) >= count

    try:
        wait_until(has_all, seconds=90, what=f"{count} records arrived")
    finally:
        consumer.close()
    return rows


def test_the_manifest_of_the_seed_deploys(
    node: NodeProcess, broker: KafkaBroker, tmp_path: Path
) -> None:
    produce(broker, ["SOME_VALUE", "OTHER", "SOME_VALUE"])
    job = SeedJob(node, tmp_path / "job", broker)
    planned = job.plan()
    applied = job.apply(planned)
    rows = consume(broker, 2)

    assert applied["state"] == "applied"
    assert [each["decision"] for each in planned["jobs"]] == ["start-clean"]
    # The other properties have a counterpart on Spark.
    [note] = planned["notes"]
    assert "`state.checkpoints.dir` is ignored" in note
    assert {row["column_b"] for row in rows} == {0, 2}
    assert list(rows[0]) == ["column_a", "column_b", "column_c", "record_time", *METADATA_COLUMNS]
    assert rows[0]["__query_name"] == "query-unique-name"
    assert rows[0]["__query_description"] == "Some description."
    assert rows[0]["__query_version"] == 1
    current = job.show()["current"]
    assert rows[0]["__query_id"] == current["query_id"]
    stored = (tmp_path / "job" / "state" / "manifests" / "query-unique-name.yaml").read_text()
    assert f"query-id: {current['query_id']}" in stored
    assert "query-version: 1" in stored
