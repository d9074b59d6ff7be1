"""A topic of a test, and what becomes of it: transactions, compaction, retention, further partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.sources.kafka import KafkaServer

_TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True)
class Topic:
    """A topic, as its producers see it."""

    server: KafkaServer
    name: str

    @classmethod
    def create(cls, server: KafkaServer, name: str, *, partitions: int = 1, **config: str) -> Topic:
        from confluent_kafka.admin import NewTopic

        topic = cls(server, name)
        # Messages say that they are of periods ago, which retention would take at once.
        config = {"retention.ms": "-1", **config}
        topic._asked(lambda admin: admin.create_topics([NewTopic(name, partitions, 1, config=config)]))
        return topic

    def send(
        self,
        at: datetime,
        *values: bytes | None,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Append messages that say they are of that time."""
        producer = self._producer()
        self._produce(producer, at, values, partition=partition, key=key, headers=list(headers))
        assert producer.flush(_TIMEOUT_SECONDS) == 0

    def transaction(self, at: datetime, *values: bytes) -> Any:
        """Append messages in a transaction that is open; `commit_transaction` or `abort_transaction` ends it."""
        producer = self._producer(**{"transactional.id": f"{self.name} {time.monotonic_ns()}"})
        producer.init_transactions(_TIMEOUT_SECONDS)
        producer.begin_transaction()
        self._produce(producer, at, values, partition=0, key=None, headers=[])
        assert producer.flush(_TIMEOUT_SECONDS) == 0
        return producer

    def expire(self, offset: int, *, partition: int = 0) -> None:
        """Delete what is before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        self._asked(lambda admin: admin.delete_records([TopicPartition(self.name, partition, offset)]))

    def create_again(self) -> None:
        """Delete the topic, and create another of its name."""
        self._asked(lambda admin: admin.delete_topics([self.name], operation_timeout=_TIMEOUT_SECONDS))
        Topic.create(self.server, self.name)

    def widen(self, partitions: int) -> None:
        """Have so many partitions."""
        from confluent_kafka.admin import NewPartitions

        self._asked(lambda admin: admin.create_partitions([NewPartitions(self.name, partitions)]))

    def _produce(self, producer: Any, at: datetime, values: Sequence[bytes | None], **more: Any) -> None:
        milliseconds = int(at.timestamp() * 1000)
        for value in values:
            producer.produce(self.name, value, timestamp=milliseconds, **more)
            producer.poll(0)

    def _producer(self, **more: Any) -> Any:
        from confluent_kafka import Producer

        return Producer(self.server.settings(**more))

    def _asked(self, ask: Callable[[Any], dict[Any, Any]]) -> None:
        from confluent_kafka.admin import AdminClient

        # The client must stay until the broker has answered.
        client = AdminClient(self.server.settings())
        for each in ask(client).values():
            each.result(_TIMEOUT_SECONDS)
