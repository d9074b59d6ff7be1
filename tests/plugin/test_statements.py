"""How much the page sends to each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from airflow_provider_chs3.client.connection import Address
from tests.plugin.period_loads import loaded, periods
from tests.support.counting import of_nodes, sent
from tests.support.lake import Lake

#: Fixtures.
__all__ = ["sent"]

#: Most statements to any node.
OF_PERIODS = 7


@pytest.mark.three_nodes
def test_the_view_of_periods(
    trips_lake: Lake, as_user: Callable[[str | None], TestClient], sent: Counter[Address | None]
) -> None:
    for period in ("2026-09", "2026-10"):
        loaded(trips_lake, period)
    sent.clear()
    assert set(periods(as_user, trips_lake)) == {"2026-09", "2026-10"}
    assert max(of_nodes(sent)) <= OF_PERIODS, of_nodes(sent)
