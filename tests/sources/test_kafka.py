"""A topic holds what was produced, and its broker refuses strangers."""

from __future__ import annotations

import json

from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.kafka import KafkaServer


def test_a_partition_has_what_was_produced_in_this_order(kafka: KafkaServer) -> None:
    trips = [json.dumps(row, default=str).encode() for row in Trips(rows_per_period=5_000).table("2026-01").to_pylist()]
    kafka.create_topic("trips", partitions=2)
    kafka.produce("trips", trips[:2_000], partition=0)
    kafka.produce("trips", trips[2_000:], partition=1)
    assert [list(kafka.messages("trips", partition=partition)) for partition in (0, 1)] == [
        trips[:2_000],
        trips[2_000:],
    ]


def test_the_broker_refuses_a_wrong_password(kafka: KafkaServer) -> None:
    from confluent_kafka import Consumer, KafkaError

    refused: list[KafkaError] = []
    consumer = Consumer(kafka.settings(**{"sasl.password": "wrong", "group.id": "chs3", "error_cb": refused.append}))
    try:
        while not refused:
            consumer.poll(1)
    finally:
        consumer.close()
    assert refused[0].code() == KafkaError._AUTHENTICATION
