"""Loads of periods of several partitions that are killed, on three nodes, at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_chs3.core.steps.operations import Step
from tests.support.killing import ALL, ONLY_THE_FIRST, Strike, steps_of, strikes_after, strikes_amid
from tests.support.lake import Lake
from tests.support.sets import BOTH, MONTHLY, Tenants

pytestmark = pytest.mark.three_nodes

TENANTS = ("eu", "us", "asia", "africa")


@pytest.fixture
def tenants(lake: Lake) -> Tenants:
    return Tenants(lake, MONTHLY)


def put(tenants: Tenants, version: int, *periods: str) -> None:
    """Write six objects of each period, of three of four tenants: another one has vanished in each version."""
    there = [tenant for number, tenant in enumerate(TENANTS) if number != version % len(TENANTS)]
    for period in periods:
        for name in range(6):
            numbers = range(1000 * version + 10 * name, 1000 * version + 10 * name + 6)
            tenants.put(period, str(name), *((there[(name + number) % 3], number) for number in numbers))


def inserts(tenants: Tenants, *periods: str) -> int:
    load = tenants.operator(periods=list(periods))
    load.execute({})
    return len(load.inserts)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("told", [ONLY_THE_FIRST, ALL])
def test_an_increment_that_was_broken_off_is_completed_and_leaves_other_partitions_alone(
    tenants: Tenants, told: slice
) -> None:
    put(tenants, 0, *BOTH)
    tenants.load(periods=BOTH)
    before = [tenants.partitions(node) for node in range(3)]
    tenants.put("2026-10", "added", ("us", 7), ("new", 8))
    Strike(0, told, "Publish 2026-10").kill_in(lambda: tenants.load(periods=BOTH[:1]))
    assert inserts(tenants, *BOTH[:1]) == 0
    tenants.assert_exact()
    for node, was in enumerate(before):
        now = tenants.partitions(node)
        assert {name: part for name, part in was.items() if "'us'" not in name}.items() <= now.items()
    tenants.put("2026-10", "more", ("asia", 9))
    assert inserts(tenants, *BOTH[:1]) == 1
    tenants.assert_exact()
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]


@pytest.mark.thorough
@pytest.mark.parametrize("periods", [BOTH[:1], BOTH], ids=["one", "two"])
@pytest.mark.parametrize("strikes", [strikes_after, strikes_amid])
def test_a_load_may_die_at_any_step(
    tenants: Tenants, strikes: Callable[[list[Step]], Iterator[Strike]], periods: list[str]
) -> None:
    put(tenants, 0, *BOTH)
    tenants.load(periods=BOTH)
    put(tenants, 1, *periods)
    points = list(strikes(steps_of(lambda: tenants.load(periods=periods))))
    for version, strike in enumerate(points, start=2):
        put(tenants, version, *periods)
        print(f"Killed at {strike}")  # shown where it fails
        strike.kill_in(lambda: tenants.load(periods=periods))
        assert inserts(tenants, *periods) <= 1
        tenants.assert_exact()
        assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]
    assert len(points) > 2
    assert tenants.lake.left_behind() == []


@pytest.mark.thorough
def test_one_whose_staging_has_lost_a_partition_is_loaded_again(tenants: Tenants) -> None:
    put(tenants, 0, *BOTH)
    tenants.load(periods=BOTH)
    put(tenants, 1, *BOTH[:1])
    Strike(0, ONLY_THE_FIRST, "Publish 2026-10").kill_in(lambda: tenants.load(periods=BOTH[:1]))
    (staging,) = set(tenants.lake.staging_tables())
    tenants.lake.on_every_node(f"ALTER TABLE {tenants.lake.database}.{staging} DROP PARTITION ('asia', 202610)")
    assert inserts(tenants, *BOTH[:1]) == 1
    tenants.assert_exact()
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]
