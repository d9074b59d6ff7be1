"""Periods of tenants on servers."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake
from tests.support.replicas import replicated
from tests.support.sets import BOTH, MONTHLY, Tenants

REPLICAS, SHARDS = 2, 2


@pytest.fixture
def tenants(empty_lake: Lake) -> Tenants:
    """Two months of three tenants, published."""
    empty_lake.table = "tenants"
    tenants = Tenants(empty_lake, MONTHLY, engine=replicated(empty_lake))
    for period in BOTH:
        put(tenants, period, ("eu", "us", "asia"))
    assert tenants.load(periods=BOTH) == ["published", "published"]
    assert_exact(tenants)
    return tenants


def put(tenants: Tenants, period: str, names: tuple[str, ...], *, first: int = 0) -> None:
    for number in range(4):
        tenants.put(period, f"{number}", *((names[row % len(names)], first + 10 * number + row) for row in range(9)))


def assert_exact(tenants: Tenants) -> None:
    """Compare the rows of both replicas of each shard."""
    sql = f"SELECT toUnixTimestamp(at), tenant, number FROM {tenants.name}"
    of_nodes = tenants.lake.on_every_node(sql)
    for replica in range(REPLICAS):
        found = [row for shard in range(SHARDS) for row in of_nodes[REPLICAS * shard + replica]]
        assert sorted(found) == tenants.expected()
