"""Periods of several partitions in replicated tables, on real servers: two shards of two replicas."""

from __future__ import annotations

import pytest

from tests.servers.tenants import BOTH, assert_exact, put, tenants
from tests.support.killing import ALL, ONLY_THE_FIRST, Strike
from tests.support.sets import Tenants

#: Fixtures.
__all__ = ["tenants"]


@pytest.mark.thorough
def test_tenants_come_and_go(tenants: Tenants) -> None:
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]
    put(tenants, "2026-10", ("eu", "africa"), first=1000)
    assert tenants.load(period="2026-10") == ["published"]
    assert_exact(tenants)
    tenants.put("2026-10", "added", ("us", 1), ("eu", 2))
    load = tenants.operator(period="2026-10")
    assert load.execute({})["status"] == "published"
    assert [len(insert.paths) for insert in load.inserts] == [1]
    assert_exact(tenants)
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]


@pytest.mark.thorough
@pytest.mark.parametrize("told", [ONLY_THE_FIRST, ALL])
@pytest.mark.parametrize("periods", [BOTH[:1], BOTH], ids=["one", "two"])
def test_a_publication_that_was_broken_off_is_completed(tenants: Tenants, periods: list[str], told: slice) -> None:
    for period in periods:
        put(tenants, period, ("eu", "africa"), first=1000)
    name = "Publish 2026-10" if len(periods) == 1 else "Publish 2026-10 and 1 more"
    Strike(0, told, name).kill_in(lambda: tenants.load(periods=periods))
    load = tenants.operator(periods=periods)
    load.execute({})
    assert load.inserts == ()
    assert_exact(tenants)
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]


@pytest.mark.thorough
def test_a_replica_that_lost_its_records_goes_by_the_other(tenants: Tenants) -> None:
    if tenants.lake.cluster.database_engine:
        pytest.skip("in a Replicated database, TRUNCATE empties the ledger of all replicas")
    tenants.lake.on_node(1, f"TRUNCATE TABLE {tenants.lake.database}.chs3_ledger")
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]
    tenants.lake.on_node(0, f"TRUNCATE TABLE {tenants.lake.database}.chs3_ledger")
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]
