"""List the objects of several months in one pass over each prefix that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from airflow_provider_chs3.core.source.key_template import KeyTemplate, MonthKeys
from airflow_provider_chs3.core.source.object_source import ObjectSource
from airflow_provider_chs3.core.storages.table_source import TableSource
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object
from airflow_provider_chs3.core.workflow.operations import Gather, Steps

T = TypeVar("T")

#: Prefixes that are listed each by itself. More are often those of a backfill.
_FEW_PREFIXES = 4


class ListingPass(NamedTuple):
    """A pass over a prefix.

    Args:
        keys: The keys that it lists.
        months: The months whose objects are among them; None for all.
        narrower: How the worker may cut the prefix; None if it may not.
    """

    keys: MonthKeys
    months: Collection[Month] | None
    narrower: Callable[[str], Sequence[str]] | None = None


def passes_of(source: ObjectSource, months: Collection[Month] | None) -> list[ListingPass]:
    """Return the passes that list the objects of months: one for each prefix, or of many one for all.

    A page holds the keys of many small months; a prefix that has more than a page is cut.

    Args:
        source: The source.
        months: The months; None for all.
    """
    template = source.template
    if months is None:
        return [ListingPass(template.keys_of_all, None, template.narrower)]
    by_prefix: dict[str, set[Month]] = defaultdict(set)
    for month in months:
        by_prefix[template.keys_of(month).prefix].add(month)
    if len(by_prefix) > _FEW_PREFIXES and not source.lists_through_clickhouse:
        keys, narrower = template.together(months)
        return [ListingPass(keys, months, narrower)]
    return [ListingPass(template.keys_of(min(some)), some) for some in by_prefix.values()]


def list_months_together(
    source: ObjectSource, months: Collection[Month]
) -> Steps[tuple[ObjectSource, dict[Month, Manifest]]]:
    """List the objects of months.

    Args:
        source: The source.
        months: The months.

    Returns:
        The source, with its base known from now on, and the manifest of each month.

    Raises:
        SourceError: If ClickHouse cannot read an object because of its key.
    """
    if isinstance(source, TableSource):
        return (yield from source.list_months(months))
    passes = [_list(source, each) for each in passes_of(source, months)]
    listed: dict[Month, Manifest] = {}
    for found, manifests in (yield from side_by_side(source, passes)):
        # Of a named collection, a prefix without objects does not show the base.
        source = found if any(each.objects for each in manifests.values()) or not listed else source
        listed |= manifests
    return source, {month: listed[month] for month in sorted(months)}


def side_by_side(source: ObjectSource, passes: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Return the results of passes, which the worker makes at the same time.

    Args:
        source: The source. If ClickHouse lists, each pass is a query to one server, and comes after the one before.
        passes: The passes.
    """
    if len(passes) == 1 or source.lists_through_clickhouse:
        results = []
        for each in passes:
            results.append((yield from each))
        return results
    return (yield from Gather(name=f"List {len(passes)} prefixes", workflows=tuple(passes)))


def _list(source: ObjectSource, each_pass: ListingPass) -> Steps[tuple[ObjectSource, Mapping[Month, Manifest]]]:
    months = each_pass.months or ()
    source, pages = yield from source.list_and_inspect_quickly(each_pass.keys, narrower=each_pass.narrower)
    start, each_keys = len(source.base), {month: source.template.keys_of(month) for month in months}
    found: dict[Month, list[S3Object]] = {month: [] for month in months}
    for each in chain.from_iterable(page.objects() for page in pages):
        key = each.path[start:]
        for month in _months_of(source.template, key, months):
            if each_keys[month].select(key, each.size_bytes):
                source.check_readable(each, key)
                found[month].append(each)
    return source, {month: Manifest.of(some) for month, some in found.items()}


def _months_of(template: KeyTemplate, key: str, months: Collection[Month]) -> Sequence[Month]:
    if len(months) == 1:
        return tuple(months)
    month = template.month_of(key)
    return (month,) if month is not None and month in months else ()
