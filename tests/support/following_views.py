"""Views that follow loads."""

from __future__ import annotations

import re
from typing import Any

from tests.support.lake import Lake

#: The columns of a view by zone and month: sums, and states.
ZONES = (
    "SELECT toStartOfMonth(pickup_at) AS month, zone, count() AS trips, sum(fare) AS fares, uniqState(trip_id) AS ids "
    "FROM {base} GROUP BY month, zone"
)
COLUMNS = (
    "month Date, zone LowCardinality(String), trips SimpleAggregateFunction(sum, UInt64), "
    "fares SimpleAggregateFunction(sum, Decimal(38, 2)), ids AggregateFunction(uniq, UInt64)"
)
#: How rows of it are read, merged or not.
MERGED = "month, zone, sum(trips), sum(fares), uniqMerge(ids)"


def run(lake: Lake, *statements: str) -> None:
    for statement in statements:
        lake.on_every_node(statement.replace("taxi.", f"{lake.database}."))


def made(lake: Lake, name: str = "zones", merged: str = MERGED) -> list[list[tuple[Any, ...]]]:
    keys = ", ".join(re.findall(r"(?:^|, )(\w+)(?=,|$)", merged))
    return lake.on_every_node(f"SELECT {merged} FROM {lake.database}.{name} GROUP BY {keys} ORDER BY ALL")


def assert_zones(lake: Lake) -> None:
    """Compare with what the SELECT makes of the table's rows."""
    select = ZONES.format(base=f"{lake.database}.trips")
    expected = lake.on_every_node(f"SELECT {MERGED} FROM ({select}) GROUP BY month, zone ORDER BY ALL")
    assert made(lake) == expected
    assert any(expected)
