"""A bucket that a topic is landed in."""

from __future__ import annotations

import io
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

from airflow_provider_chs3.client.topic import Topic as LandedTopic
from airflow_provider_chs3.hooks.kafka import settings_of
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from tests.sources.topics import Topic

NIGHTS = [datetime(2026, 1, 30, tzinfo=UTC) + timedelta(days=day) for day in range(5)]
HOUR = timedelta(hours=1)


class Dead(BaseException):
    """The error that ends a worker."""


class LandingLake:
    """A bucket, and landings of a topic in it."""

    def __init__(self, topic: Topic, s3: Any, bucket: str) -> None:
        self.topic, self.s3, self.bucket = topic, s3, bucket

    def operator(self, night: int, **options: Any) -> KafkaToS3Operator:
        where = {"topic": self.topic.name, "bucket": self.bucket, "key": "events/{YYYY-MM}/"}
        points = {"start": NIGHTS[night], "end": NIGHTS[night + 1]}
        return KafkaToS3Operator(task_id="land", **where | points | options)

    def land(self, night: int, **options: Any) -> dict[str, Any]:
        return self.operator(night, **options).execute({})

    def objects(self) -> dict[str, bytes]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix="events/2")
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return {key: self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}

    def records(self) -> dict[str, bytes]:
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"events/_kafka/{self.topic.name}/")
        keys = [each["Key"] for each in listed["Contents"]]
        return {key: self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}

    def rows(self, period: str = "") -> list[dict[str, Any]]:
        found = [body for key, body in self.objects().items() if period in key]
        return [row for body in found for row in pq.read_table(io.BytesIO(body)).to_pylist()]

    def values(self, period: str = "") -> Counter[bytes]:
        return Counter(row["value"] for row in self.rows(period))


def settled(lake: LandingLake) -> datetime:
    """Now, when Kafka shows all that was sent."""
    with LandedTopic(lake.topic.name, "kafka_default", settings_of("kafka_default")) as topic:
        end = -1
        while (held := topic.held(0)[1]) != end or held == 0:
            end = held
            time.sleep(0.5)
    return datetime.now(UTC)
