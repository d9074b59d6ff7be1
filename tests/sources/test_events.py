"""Notifications of S3, and the months that they name."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus

from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.sources.s3.events import NamedMonths, named_months

JANUARY, MARCH = Month(2026, 1), Month(2026, 3)


def notification(*keys: str, bucket: str = "taxi", event: str = "ObjectCreated:Put") -> dict[str, Any]:
    about = [{"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/")}} for key in keys]
    return {"Records": [{"eventSource": "aws:s3", "eventName": event, "s3": each} for each in about]}


def months(*messages: object, key: str = "trips/{YYYY-MM}/*.parquet") -> NamedMonths:
    bodies = [each if isinstance(each, str) else json.dumps(each) for each in messages]
    return named_months(bodies, bucket="taxi", template=KeyTemplate(key))


def test_each_record_of_each_message_names_the_month_of_its_key() -> None:
    first = notification("trips/2026-03/a.parquet", "trips/2026-01/a.parquet", "trips/2026-01/b.parquet")
    assert months(first, notification("trips/2026-03/b.parquet")) == NamedMonths((JANUARY, MARCH), 0)


def test_keys_are_written_as_in_a_form() -> None:
    template = "trips of {MMM} {YYYY}+/*.parquet"
    assert months(notification("trips of Jan 2026+/a (1)=ü.parquet"), key=template).months == (JANUARY,)


def test_a_key_that_names_two_months_names_both() -> None:
    body = notification("trips/from-2026-01-31-to-2026-02-01.parquet")
    assert months(body, key="trips/*{YYYY-MM-DD}*.parquet").months == (JANUARY, JANUARY.shifted(1))


def test_a_deleted_object_names_its_month_too() -> None:
    assert months(notification("trips/2026-01/a.parquet", event="ObjectRemoved:Delete")).months == (JANUARY,)


def test_what_came_through_sns_names_the_same() -> None:
    wrapped = {"Type": "Notification", "Message": json.dumps(notification("trips/2026-01/a.parquet"))}
    assert months(wrapped).months == (JANUARY,)


def test_keys_of_eventbridge_are_as_they_are() -> None:
    detail = {"bucket": {"name": "taxi"}, "object": {"key": "trips/2026-01/a+b%20.parquet"}}
    event = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    assert months(event, key="trips/{YYYY-MM}/a+b%20.parquet").months == (JANUARY,)


def test_the_test_event_names_none() -> None:
    assert months({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "taxi"}) == NamedMonths((), 0)


def test_other_buckets_and_keys_name_none() -> None:
    other = notification("trips/2026-01/a.parquet", bucket="other")
    assert months(other, notification("refunds/2026-01/a.parquet", "trips/2026-13/a.parquet")) == NamedMonths((), 0)


def test_what_is_no_notification_is_counted_and_hides_no_other() -> None:
    strangers = ["hello", "[]", "{}", '{"Records": [{}]}', '{"Type": "Notification", "Message": "hello"}']
    assert months(*strangers, notification("trips/2026-01/a.parquet")) == NamedMonths((JANUARY,), len(strangers))
