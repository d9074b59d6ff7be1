"""The months that S3's notifications name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.values.models import Month

_TEST_EVENT = "s3:TestEvent"


@dataclass(frozen=True)
class NamedMonths:
    """The months that notifications are about.

    Args:
        months: Months of objects that were written or deleted, in order.
        not_understood: Number of messages that are no notifications of S3.
    """

    months: tuple[Month, ...]
    not_understood: int


def named_months(bodies: Iterable[str], *, bucket: str, template: KeyTemplate) -> NamedMonths:
    """Return the months of the objects that notifications are about.

    It understands what S3 sends to SQS, also through SNS or EventBridge. Objects of other buckets, and keys that the
    template takes for no month, count for none.

    Args:
        bodies: The messages' bodies.
        bucket: The bucket.
        template: The template of the keys.
    """
    months: set[Month] = set()
    not_understood = 0
    for body in bodies:
        objects = _objects(body)
        if objects is None:
            not_understood += 1
            continue
        months.update(month for of, key in objects if of == bucket for month in template.months_named(key))
    return NamedMonths(tuple(sorted(months)), not_understood)


def _objects(body: str) -> list[tuple[str, str]] | None:
    """Return bucket and key of each object that a message is about; None if it is not understood."""
    try:
        return list(_named(json.loads(body)))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _named(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if message.get("Type") == "Notification":
        yield from _named(json.loads(message["Message"]))
    elif message.get("source") == "aws.s3":
        # EventBridge writes keys as they are.
        yield message["detail"]["bucket"]["name"], message["detail"]["object"]["key"]
    elif message.get("Event") != _TEST_EVENT:
        for record in message["Records"]:
            # S3 writes keys as forms do: a space is a plus.
            yield record["s3"]["bucket"]["name"], unquote_plus(record["s3"]["object"]["key"])
