"""Which prefixes are listed for the objects of several periods, so that each is listed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.source.prefixes import PeriodKeys
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Gather, Steps

T = TypeVar("T")

#: Prefixes that are listed each by itself. More are often those of a backfill.
_FEW_PREFIXES = 4


class ListingPass(NamedTuple):
    """A pass over a prefix.

    Args:
        keys: The keys that it lists.
        periods: The periods whose objects are among them; None for all.
        narrower: How the worker may cut the prefix; None if it may not.
    """

    keys: PeriodKeys
    periods: Collection[Period] | None
    narrower: Callable[[str], Sequence[str]] | None = None


def passes_of(template: KeyTemplate, periods: Collection[Period] | None, *, may_join: bool) -> list[ListingPass]:
    """Return the passes that list the objects of periods: one for each prefix, or of many one for all.

    A page holds the keys of many small periods; a prefix that has more than a page is cut.

    Args:
        template: The template of the keys.
        periods: The periods; None for all.
        may_join: Whether one pass may list what many prefixes have in common.
    """
    if periods is None:
        return [ListingPass(template.keys_of_all, None, template.narrower)]
    by_prefix: dict[str, set[Period]] = defaultdict(set)
    for period in periods:
        by_prefix[template.keys_of(period).prefix].add(period)
    if len(by_prefix) > _FEW_PREFIXES and may_join:
        keys, narrower = template.together(periods)
        return [ListingPass(keys, periods, narrower)]
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
