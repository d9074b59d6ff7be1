"""Notifications of S3, and the periods that they name."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.sources.s3.events import NamedPeriods, named_periods

JANUARY, MARCH = Period.of_month(2026, 1), Period.of_month(2026, 3)


def notification(*keys: str, bucket: str = "taxi", event: str = "ObjectCreated:Put") -> dict[str, Any]:
    about = [{"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/")}} for key in keys]
    return {"Records": [{"eventSource": "aws:s3", "eventName": event, "s3": each} for each in about]}


def periods(*messages: object, key: str = "trips/{YYYY-MM}/*.parquet") -> NamedPeriods:
    bodies = [message if isinstance(message, str) else json.dumps(message) for message in messages]
    return named_periods(bodies, bucket="taxi", template=KeyTemplate(key))


def test_each_record_of_each_message_names_the_period_of_its_key() -> None:
    first = notification("trips/2026-03/a.parquet", "trips/2026-01/a.parquet", "trips/2026-01/b.parquet")
    assert periods(first, notification("trips/2026-03/b.parquet")) == NamedPeriods((JANUARY, MARCH), 0)


def test_keys_are_written_as_in_a_form() -> None:
    template = "trips of {MMM} {YYYY}+/*.parquet"
    assert periods(notification("trips of Jan 2026+/a (1)=ü.parquet"), key=template).periods == (JANUARY,)


def test_a_key_that_names_two_periods_names_both() -> None:
    body = notification("trips/from-2026-01-31-to-2026-02-01.parquet")
    assert periods(body, key="trips/*{YYYY-MM-DD}*.parquet").periods == (JANUARY, JANUARY.shifted(1))


def test_a_deleted_object_names_its_period_too() -> None:
    assert periods(notification("trips/2026-01/a.parquet", event="ObjectRemoved:Delete")).periods == (JANUARY,)


def test_what_came_through_sns_names_the_same() -> None:
    wrapped = {"Type": "Notification", "Message": json.dumps(notification("trips/2026-01/a.parquet"))}
    assert periods(wrapped).periods == (JANUARY,)


def test_keys_of_eventbridge_are_as_they_are() -> None:
    detail = {"bucket": {"name": "taxi"}, "object": {"key": "trips/2026-01/a+b%20.parquet"}}
    event = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    assert periods(event, key="trips/{YYYY-MM}/a+b%20.parquet").periods == (JANUARY,)


def test_the_test_event_names_none() -> None:
    assert periods({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "taxi"}) == NamedPeriods((), 0)


def test_other_buckets_and_keys_name_none() -> None:
    other = notification("trips/2026-01/a.parquet", bucket="other")
    assert periods(other, notification("refunds/2026-01/a.parquet", "trips/2026-13/a.parquet")) == NamedPeriods((), 0)


def test_what_is_no_notification_is_counted_and_hides_no_other() -> None:
    strangers = ["hello", "[]", "{}", '{"Records": [{}]}', '{"Type": "Notification", "Message": "hello"}']
    assert periods(*strangers, notification("trips/2026-01/a.parquet")) == NamedPeriods((JANUARY,), len(strangers))
