"""A table with a partition for each tenant on the page: a period is one."""

from __future__ import annotations

import pytest

from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, loaded, periods
from tests.support.lake import Lake
from tests.support.sets import Case, Tenants


@pytest.mark.thorough
def test_a_period_of_several_partitions_is_one(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    trips_lake.table = "tenants"
    tenants = Tenants(trips_lake, Case("(tenant, toYYYYMM(at))"))
    tenants.put("2026-10", "a", ("eu", 1), ("us", 2), ("us", 3))
    tenants.put("2026-11", "a", ("eu", 4))
    tenants.operator(periods=["2026-10", "2026-11"]).execute({"ti": TASK})
    shown = {name: (each["state"], each["rows"]) for name, each in periods(as_user, trips_lake, "tenants").items()}
    assert shown == {"2026-10": ("published", 3), "2026-11": ("published", 1)}
    trips_lake.on_every_node(f"INSERT INTO {tenants.name} VALUES ('2026-10-05 00:00:00', 'us', 'k', 5)")
    shown = {name: each["state"] for name, each in periods(as_user, trips_lake, "tenants").items()}
    assert shown == {"2026-10": "changed", "2026-11": "published"}
    # Partitions that no load has recorded: of a period that is there, and of one that is not.
    strange = "O\\'Neill, (or) "
    rows = ("2026-11-05", strange), ("2026-12-05", strange)
    for day, tenant in rows:
        trips_lake.on_every_node(f"INSERT INTO {tenants.name} VALUES ('{day} 00:00:00', '{tenant}', 'k', 6)")
    found = periods(as_user, trips_lake, "tenants")
    assert {name: each["state"] for name, each in found.items()} == dict.fromkeys(
        ("2026-10", "2026-11", "2026-12"), "changed"
    )
    assert "the partition holds rows that no load wrote" in found["2026-11"]["why"]
