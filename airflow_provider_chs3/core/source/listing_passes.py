"""Which prefixes are listed for the objects of several months, so that each is listed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.source.prefixes import MonthKeys
from airflow_provider_chs3.core.values.models import Month
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


def passes_of(template: KeyTemplate, months: Collection[Month] | None, *, may_join: bool) -> list[ListingPass]:
    """Return the passes that list the objects of months: one for each prefix, or of many one for all.

    A page holds the keys of many small months; a prefix that has more than a page is cut.

    Args:
        template: The template of the keys.
        months: The months; None for all.
        may_join: Whether one pass may list what many prefixes have in common.
    """
    if months is None:
        return [ListingPass(template.keys_of_all, None, template.narrower)]
    by_prefix: dict[str, set[Month]] = defaultdict(set)
    for month in months:
        by_prefix[template.keys_of(month).prefix].add(month)
    if len(by_prefix) > _FEW_PREFIXES and may_join:
        keys, narrower = template.together(months)
        return [ListingPass(keys, months, narrower)]
    return [ListingPass(template.keys_of(min(some)), some) for some in by_prefix.values()]


def run_passes(passes: Sequence[Steps[T]], *, at_once: bool) -> Steps[list[T]]:
    """Return the results of passes.

    Args:
        passes: The passes.
        at_once: Whether they are made at the same time, else one after the other.
    """
    if len(passes) == 1 or not at_once:
        results = []
        for each in passes:
            results.append((yield from each))
        return results
    return (yield from Gather(name=f"List {len(passes)} prefixes", workflows=tuple(passes)))
