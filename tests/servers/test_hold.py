"""Held rows of replicated tables, on real servers: two shards of two replicas."""

from __future__ import annotations

import pytest

from tests.servers.tenants import BOTH, assert_exact, put, tenants
from tests.support.holds import HOLDS, run
from tests.support.killing import ALL, ONLY_THE_FIRST, Strike
from tests.support.sets import Tenants

#: A fixture: two months of three tenants, published.
__all__ = ["tenants"]

PERIOD = BOTH[0]
FEW = {"table_checks": {"few": {"check_statement": "max(number) < 1000"}}}
STRIKES = [
    Strike(0, ONLY_THE_FIRST, f"Publish {PERIOD}"),
    Strike(0, ONLY_THE_FIRST, f"Record the intent to publish {PERIOD}"),
    Strike(0, ALL, f"Record the intent to publish {PERIOD}"),
    Strike(0, ONLY_THE_FIRST, f"Record {PERIOD} as published"),
]


def approve(tenants: Tenants) -> list[str]:
    conf = {"database": tenants.lake.database, "table": tenants.lake.table, "periods": [PERIOD], "approve": True}
    options = {"checks": FEW, "policies": HOLDS, "periods": BOTH}
    return [each["status"] for each in tenants.operator(**options).execute(run({"chs3_reload": conf}))]


@pytest.mark.thorough
@pytest.mark.parametrize("strike", STRIKES, ids=str)
def test_an_approval_reaches_every_replica_also_after_a_death(tenants: Tenants, strike: Strike) -> None:
    before = tenants.expected()
    put(tenants, PERIOD, ("eu", "africa"), first=1000)
    for _ in range(2):
        assert tenants.load(checks=FEW, policies=HOLDS, periods=BOTH) == ["held", "unchanged"]
        assert tenants.found() == before
    strike.kill_in(lambda: approve(tenants))
    approve(tenants)
    assert_exact(tenants)
    assert tenants.load(checks=FEW, policies=HOLDS, periods=BOTH) == ["unchanged", "unchanged"]
    assert tenants.lake.left_behind() == []
