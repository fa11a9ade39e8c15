"""The records of the acceptance run in Kafka: JSON orders, written and read with librdkafka."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.kafka import KafkaBroker

KEYS = 100
SMALLEST_LARGE_AMOUNT = 250
COLUMNS = "id BIGINT, k INT, amount INT"
LARGE = f"amount >= {SMALLEST_LARGE_AMOUNT}"
"""Filter that keeps three of four orders."""
_AMOUNTS = 1000
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a sink, counted: rows, distinct ids and the sum of the distinct ids."""

    rows: int
    distinct: int
    id_sum: int

    @property
    def duplicates(self) -> int:
        return self.rows - self.distinct


def count_large(records: int) -> Rows:
    """Return the rows that the filter keeps of the first records."""
    ids = [id_ for id_ in range(records) if id_ % _AMOUNTS >= SMALLEST_LARGE_AMOUNT]
    return Rows(len(ids), len(ids), sum(ids))


class Orders:
    """Writes orders with successive ids to a topic. Each is stored once, whatever fails."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self.topic = topic
        self.count = 0
        self._broker = broker
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
                "message.timeout.ms": _SECONDS * 1000,
                # A broker that is down is no news here.
                "log_level": 0,
            }
        )

    def publish(self, count: int) -> None:
        """Hand over the next orders. They are sent in the background, also while faults happen."""
        for id_ in range(self.count, self.count + count):
            value = json.dumps({"id": id_, "k": id_ % KEYS, "amount": id_ % _AMOUNTS})
            self._producer.produce(self.topic, value.encode(), on_delivery=self._note_failure)
            self._producer.poll(0)
        self.count += count

    def flush(self) -> None:
        """Wait until the broker has stored all orders, each once. Raises AssertionError."""
        remaining = self._producer.flush(_SECONDS)
        assert not remaining, f"{remaining} records were not stored"
        assert not self._failures, self._failures[:5]
        stored = sum(end for _partition, end in find_ends(self._broker, self.topic))
        assert stored == self.count, f"{stored} records are stored, not {self.count}"

    def _note_failure(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(str(error))


def find_ends(broker: KafkaBroker, topic: str) -> list[tuple[int, int]]:
    """Return the partitions of a topic, each with the offset after its last record."""
    with_offsets = _consumer(broker)
    try:
        return [
            (partition, with_offsets.get_watermark_offsets(TopicPartition(topic, partition))[1])
            for partition in _list_partitions(broker, topic)
        ]
    finally:
        with_offsets.close()


def count_topic(broker: KafkaBroker, topic: str) -> Rows:
    """Read all records of a topic whose values have an id, and count them."""
    ends = find_ends(broker, topic)
    remaining = sum(end for _partition, end in ends)
    consumer = _consumer(broker)
    counts: Counter[int] = Counter()
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition, _end in ends])
        while remaining:
            messages = consumer.consume(min(remaining, 10_000), timeout=_SECONDS)
            assert messages, f"{remaining} records of {topic} did not arrive"
            for message in messages:
                assert message.error() is None, message.error()
                counts[json.loads(message.value() or b"")["id"]] += 1
            remaining -= len(messages)
    finally:
        consumer.close()
    return Rows(sum(counts.values()), len(counts), sum(counts))


def _list_partitions(broker: KafkaBroker, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": broker.address})
    return sorted(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions)


def _consumer(broker: KafkaBroker) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "acceptance",
            "enable.auto.commit": False,
        }
    )
