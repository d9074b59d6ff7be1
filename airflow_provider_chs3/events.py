"""Events of S3: the months that a run is to plan because their objects changed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Asset, Context

_LOG = logging.getLogger(__name__)


def months_of_events(
    context: Context, asset: Asset, *, bucket: str, key: str, since: timedelta = timedelta(days=1)
) -> list[str]:
    """Return the months whose objects were written or deleted, as the asset's watcher received it from SQS.

    They are those of all events since `since`, not only of the run's own. Airflow starts one run for a burst of events
    and gives it the first ones; the others would wait for the next event. To name a month again costs a plan one
    comparison. Messages of SQS that are no notifications of S3 are logged and count for nothing.

    Args:
        context: The context of a task that has the asset in its `inlets`.
        asset: The asset with the watcher.
        bucket: The bucket.
        key: Template of the keys, as in the load.
        since: How far to look back; longer than a run takes. Default: a day.

    Returns:
        The months, `YYYY-MM`, in order: for `months` of `monthly_load`.

    Raises:
        ConfigurationError: If `key` is no template.
    """
    from airflow_provider_chs3.core.source.key_template import KeyTemplate
    from airflow_provider_chs3.core.source.notifications import named_months

    recent = context["inlet_events"][asset].after((datetime.now(UTC) - since).isoformat())
    own = context["triggering_asset_events"].get(asset, ())
    named = named_months((*_bodies(own), *_bodies(recent)), bucket=bucket, template=KeyTemplate(key))
    if named.not_understood:
        _LOG.warning("%d messages are not notifications of S3, and were ignored.", named.not_understood)
    months = [str(month) for month in named.months]
    _LOG.info("Months named by events: %s", ", ".join(months) or "none")
    return months


def _bodies(events: Iterable[Any]) -> Iterator[str]:
    """Yield the bodies of SQS' messages; events that somebody made by hand have none."""
    for event in events:
        payload = (event.extra or {}).get("payload")
        batch = payload.get("message_batch", ()) if isinstance(payload, dict) else ()
        yield from (message["Body"] for message in batch)
