"""A stateful job over a topic, deployed through the API of a real node."""

from __future__ import annotations

import json
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
from tests.support.jobs import CountingJob
from tests.support.kafka import KafkaBroker
from tests.support.node_client import NodeClient

_TOPIC = "numbers"
_RECORDS = 10


class KafkaCountingJob(CountingJob):
    """A job that counts the records that it has ever read from a topic.

    The test deletes the records that the job has read, so that the count tells whether the state
    was kept.
    """

    def __init__(self, node: NodeClient, folder: Path, broker: KafkaBroker) -> None:
        super().__init__(node, folder)
        self._broker = broker
        self._servers = {"bootstrap.servers": broker.address}
        self._end = 0

    @property
    def definitions(self) -> str:
        options = (
            f"'kafka.bootstrap.servers' = '{self._broker.address}', 'subscribe' = '{_TOPIC}',"
            " 'startingOffsets' = 'earliest'"
        )
        return (
            f"CREATE STREAM {self.name}_numbers (n INT) FROM kafka OPTIONS ({options});\n"
            f"CREATE TABLE IF NOT EXISTS {self.table} (c BIGINT);\n"
        )

    def replace_input(self) -> None:
        """Delete the records of the topic, and add ten others."""
        if self._end:
            admin = confluent_kafka.admin.AdminClient(self._servers)
            before = confluent_kafka.TopicPartition(_TOPIC, 0, self._end)
            for future in admin.delete_records([before]).values():
                future.result(60)
        producer = confluent_kafka.Producer(self._servers)
        for number in range(_RECORDS):
            producer.produce(_TOPIC, json.dumps({"n": number}), partition=0)
        assert producer.flush(60) == 0
        self._end += _RECORDS
