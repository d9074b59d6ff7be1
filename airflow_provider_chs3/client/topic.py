"""The messages of a topic in Kafka, by partition and offset."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

from airflow_provider_chs3.core.exchange.topic_offsets import OffsetRange
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError, TransientError

_ANSWER_SECONDS = 30.0
#: Bounds memory, as messages may have megabytes; a partition that is read to its end waits for no more.
_MESSAGES_AT_ONCE, _BATCH_SECONDS = 1_000, 0.1
#: The id of topics on brokers that have none, those before Kafka 2.8 and some that only speak its protocol.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

Answer = TypeVar("Answer")


class Topic:
    """A topic; use it in a `with` block. All methods raise `TransientError` if Kafka does not answer."""

    def __init__(self, name: str, kafka_conn_id: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self._kafka_conn_id = kafka_conn_id
        self._settings = settings
        self._refusal: Any = None
        self._error: Any = None
        self._is_stopped = False
        self._consumer = _consumer(settings, self._note)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def stop(self) -> None:
        """Let what reads end with an error, soon."""
        self._is_stopped = True

    def identity(self) -> str | None:
        """Return the topic's id, which another topic of the same name does not have; None if the broker gives none."""
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient

        settings: dict[str, Any] = {**self._settings, "error_cb": self._note}
        settings.pop("on_commit", None)
        client = AdminClient(settings)
        asked = client.describe_topics(TopicCollection([self.name]), request_timeout=_ANSWER_SECONDS)[self.name]
        while not asked.done():
            client.poll(0.05)
            self._check_login()
        topic_id = str(self._answer_of(asked.result).topic_id)
        return None if topic_id == _NO_ID else topic_id

    def offsets_at(self, at: datetime) -> dict[int, int]:
        """Return, of each partition, the first offset of a message that is not before a point in time.

        Where no message is as late, it is the end of the log. No offset is behind the first one of an open transaction.
        """
        from confluent_kafka import TopicPartition

        milliseconds = int(at.timestamp() * 1000)
        asked = [TopicPartition(self.name, partition, milliseconds) for partition in self.partitions()]
        offsets = self._answer_of(lambda: self._consumer.offsets_for_times(asked, timeout=_ANSWER_SECONDS))
        if error := next(filter(None, (offset.error for offset in offsets)), None):
            raise TransientError(f"Kafka did not return the offsets of topic {self.name!r}: {error.str()}.")
        return {
            offset.partition: offset.offset if offset.offset >= 0 else self.held(offset.partition)[1]
            for offset in offsets
        }

    def held(self, partition: int) -> tuple[int, int]:
        """Return the first offset that Kafka still has of a partition, and the one behind the last."""
        from confluent_kafka import TopicPartition

        asked = TopicPartition(self.name, partition)
        first, end = self._answer_of(lambda: self._consumer.get_watermark_offsets(asked, timeout=_ANSWER_SECONDS))
        return first, end

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions."""
        described = self._answer_of(lambda: self._consumer.list_topics(self.name, timeout=_ANSWER_SECONDS))
        topic = described.topics[self.name]
        if topic.error is not None:
            raise self._is_missing(topic.error)
        return sorted(topic.partitions)

    def messages(self, offsets: OffsetRange) -> Generator[Any, None, None]:
        """Read the committed messages of a range, in order."""
        from confluent_kafka import TopicPartition

        self._answer_of(lambda: self._consumer.assign([TopicPartition(self.name, offsets.partition, offsets.first)]))
        try:
            yield from self._until(offsets.end, offsets.partition)
        finally:
            self._consumer.unassign()

    def _until(self, end: int, partition: int) -> Iterator[Any]:
        """Read on. Transactions and compaction leave gaps: only the position shows the end, not a count."""
        waiting_since = time.monotonic()
        while not self._is_stopped:
            batch = self._answer_of(lambda: self._consumer.consume(_MESSAGES_AT_ONCE, _BATCH_SECONDS))
            for message in batch:
                if (error := message.error()) is not None:
                    self._check_end(error, message.offset(), end, partition)
                    return
                if message.offset() >= end:
                    return
                yield message
                if message.offset() == end - 1:
                    return
            if batch:
                waiting_since = time.monotonic()
            elif time.monotonic() - waiting_since > _ANSWER_SECONDS:
                raise TransientError(
                    f"Kafka sent nothing from topic {self.name!r} for {_ANSWER_SECONDS:g} s{self._why()}."
                )
        raise TransientError("Landing was stopped; the next try continues.")

    def _check_end(self, error: Any, offset: int | None, end: int, partition: int) -> None:
        from confluent_kafka import KafkaError

        where = f"topic {self.name!r}, partition {partition}"
        if error.code() == KafkaError._PARTITION_EOF:
            # It is not before the last committed offset, and `offsets_at` gave none behind that.
            if offset is not None and offset >= end:
                return
            raise TransientError(f"The log of {where} ends at offset {offset}, but ended at {end} before.")
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise SourceError(f"Messages of {where} expired while they were read: {error.str()}.")
        raise TransientError(f"Kafka failed to send {where}: {error.str()}.")

    def _is_missing(self, error: Any) -> SourceError:
        return SourceError(f"Kafka has no topic {self.name!r} for this connection: {error.str()}.")

    def _note(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        self._error = error
        # A token that cannot be had, or a connection that ends during the login, has the same code: these may pass.
        if error.code() == KafkaError._AUTHENTICATION and "SASL authentication error" in error.str():
            self._refusal = error

    def _check_login(self) -> None:
        if self._refusal is not None:
            raise ConfigurationError(
                f"Kafka refuses the login of connection {self._kafka_conn_id!r}: {self._refusal.str()}."
            )

    def _why(self) -> str:
        # Only then does librdkafka say what went wrong.
        self._consumer.poll(0)
        return f": {self._error.str()}" if self._error is not None else ""

    def _answer_of(self, call: Callable[[], Answer]) -> Answer:
        from confluent_kafka import KafkaError, KafkaException

        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._is_missing(error.args[0]) from error
            self._consumer.poll(0)
            self._check_login()
            raise TransientError(f"Kafka did not answer: {error.args[0].str()}{self._why()}.") from error


def _consumer(settings: Mapping[str, Any], note: Callable[[Any], None]) -> Any:
    from confluent_kafka import Consumer

    # It joins no group and commits nothing; librdkafka wants a name all the same.
    required = {
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "error_cb": note,
    }
    return Consumer({"group.id": "airflow-provider-chs3", **settings, **required})
