"""Events of S3: the periods that a run should plan because their objects changed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.sources.s3 import S3Objects

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Asset, Context
    from airflow.sdk import ObjectStoragePath

_TEST_EVENT = "s3:TestEvent"
_LOG = logging.getLogger(__name__)


def periods_of_events(
    context: Context,
    asset: Asset,
    *,
    key: str | ObjectStoragePath,
    bucket: str | None = None,
    since: timedelta = timedelta(days=1),
) -> list[str]:
    """Return the periods whose objects were written or deleted, as the asset's watcher received it from SQS.

    They are those of all events since `since`, not only of the run's own. Airflow starts one run for a burst of events
    and gives it the first ones; the others would wait for the next event. Naming a period again costs a plan one
    comparison. SQS messages that are not notifications of S3 are logged and ignored.

    Args:
        context: The context of a task that has the asset in its `inlets`.
        asset: The asset with the watcher.
        key: Template of the keys, as in the load; with the bucket, a URL.
        bucket: The bucket, unless `key` names it.
        since: How far to look back; longer than a run takes. Default: a day.

    Returns:
        The periods, such as `2026-10`, in order: for `periods` of `scheduled_load`.

    Raises:
        ConfigurationError: If `key` is not a template.
    """
    recent = context["inlet_events"][asset].after((datetime.now(UTC) - since).isoformat())
    triggering = context["triggering_asset_events"].get(asset, ())
    place = S3Objects(key=key, bucket=bucket).location
    named = named_periods(
        (*_bodies(triggering), *_bodies(recent)), bucket=place.place, template=KeyTemplate(place.template)
    )
    if named.not_understood:
        _LOG.warning("%d messages are not notifications of S3, and were ignored.", named.not_understood)
    periods = [str(period) for period in named.periods]
    _LOG.info("Periods named by events: %s", ", ".join(periods) or "none")
    return periods


def _bodies(events: Iterable[Any]) -> Iterator[str]:
    """Yield the bodies of SQS' messages; events that somebody made by hand have none."""
    for event in events:
        payload = (event.extra or {}).get("payload")
        batch = payload.get("message_batch", ()) if isinstance(payload, dict) else ()
        yield from (message["Body"] for message in batch)


@dataclass(frozen=True)
class NamedPeriods:
    """The periods that notifications are about.

    Args:
        periods: Periods of objects that were written or deleted, in order.
        not_understood: Number of messages that are no notifications of S3.
    """

    periods: tuple[Period, ...]
    not_understood: int


def named_periods(bodies: Iterable[str], *, bucket: str, template: KeyTemplate) -> NamedPeriods:
    """Return the periods of the objects that notifications are about.

    It understands what S3 sends to SQS, also through SNS or EventBridge. Objects of other buckets, and keys that the
    template takes for no period, count for none.

    Args:
        bodies: The messages' bodies.
        bucket: The bucket.
        template: The template of the keys.
    """
    periods: set[Period] = set()
    not_understood = 0
    for body in bodies:
        objects = _objects(body)
        if objects is None:
            not_understood += 1
            continue
        periods.update(period for of, key in objects if of == bucket for period in template.periods_named(key))
    return NamedPeriods(tuple(sorted(periods)), not_understood)


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
