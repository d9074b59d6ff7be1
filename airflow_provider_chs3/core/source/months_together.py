"""List the objects of several months in one pass over each prefix that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from airflow_provider_chs3.core.source.key_template import KeyTemplate, MonthKeys
from airflow_provider_chs3.core.source.s3_source import S3Source, check_readable
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object
from airflow_provider_chs3.core.workflow.operations import Gather, Steps

#: Prefixes that the worker lists at the same time; boto3 holds ten connections.
PASSES_AT_ONCE = 8


def prefixes_of(template: KeyTemplate, months: Collection[Month]) -> list[tuple[MonthKeys, set[Month]]]:
    """Return the keys of a month of each prefix, with all months that have this prefix.

    Args:
        template: The template of the keys.
        months: The months.
    """
    by_prefix: dict[str, set[Month]] = defaultdict(set)
    for month in months:
        by_prefix[template.keys_of(month).prefix].add(month)
    return [(template.keys_of(min(some)), some) for some in by_prefix.values()]


def list_months_together(source: S3Source, months: Collection[Month]) -> Steps[tuple[S3Source, dict[Month, Manifest]]]:
    """List the objects of months.

    Args:
        source: The source.
        months: The months.

    Returns:
        The source, with its base known from now on, and the manifest of each month.

    Raises:
        SourceError: If ClickHouse cannot read an object because of its key.
    """
    passes = [_list(source, keys, some) for keys, some in prefixes_of(source.template, months)]
    # A dozen of ClickHouse's own listings would be a dozen queries to one server.
    at_once = 1 if source.lists_through_clickhouse else PASSES_AT_ONCE
    listed: dict[Month, Manifest] = {}
    for first in range(0, len(passes), at_once):
        step = Gather(name=f"List {len(passes)} prefixes", workflows=tuple(passes[first : first + at_once]))
        for found, manifests in (yield from step):
            # Of a named collection, a prefix without objects does not show the base.
            source = found if any(each.objects for each in manifests.values()) or not listed else source
            listed |= manifests
    return source, {month: listed[month] for month in sorted(months)}


def _list(
    source: S3Source, keys: MonthKeys, months: Collection[Month]
) -> Steps[tuple[S3Source, Mapping[Month, Manifest]]]:
    source, objects = yield from source.list_and_inspect_quickly(keys)
    start, each_keys = len(source.base), {month: source.template.keys_of(month) for month in months}
    found: dict[Month, list[S3Object]] = {month: [] for month in months}
    for each in objects:
        key = each.path[start:]
        for month in _months_of(source.template, key, months):
            if each_keys[month].select(key, each.size_bytes):
                check_readable(each, key)
                found[month].append(each)
    return source, {month: Manifest.of(some) for month, some in found.items()}


def _months_of(template: KeyTemplate, key: str, months: Collection[Month]) -> Sequence[Month]:
    if len(months) == 1:
        return tuple(months)
    month = template.month_of(key)
    return (month,) if month is not None and month in months else ()
