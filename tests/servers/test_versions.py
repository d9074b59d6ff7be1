"""Versions of periods of replicated tables, on real servers: two shards of two replicas."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from tests.support.days import Days
from tests.support.killing import ALL, ONLY_THE_FIRST, Strike
from tests.support.lake import Lake
from tests.support.replicas import replicated

PERIOD = "2026-10"
STRIKES = [
    Strike(0, ONLY_THE_FIRST, f"Publish {PERIOD}"),
    Strike(0, ALL, f"Keep what … holds of {PERIOD}"),
    Strike(0, ONLY_THE_FIRST, f"Record the intent to publish {PERIOD}"),
    Strike(0, ONLY_THE_FIRST, f"Record {PERIOD} as published"),
]


@pytest.fixture
def days(empty_lake: Lake) -> Days:
    empty_lake.table = "days"
    found = Days(empty_lake)
    found.create(engine=replicated(empty_lake))
    return found


def put(days: Days, values: range) -> None:
    """Files for each node, so that each shard has rows."""
    for number in range(8):
        days.put(values[number::8], name=f"{number}")


def assert_exact(days: Days, values: range) -> None:
    """Compare the rows of both replicas of each shard."""
    of_nodes = days.lake.on_every_node(f"SELECT value FROM {days.lake.database}.{days.lake.table}")
    for replica in range(2):
        assert sorted(value for rows in (of_nodes[replica], of_nodes[2 + replica]) for (value,) in rows) == [*values]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "strike", [STRIKES[2], *STRIKES[:2], STRIKES[3]], ids=["publish", "keep", "intent", "published"]
)
def test_a_night_is_undone_on_every_replica_also_after_a_death(days: Days, strike: Strike) -> None:
    put(days, range(400))
    days.load()
    put(days, range(200, 1000))
    days.load()
    Strike(strike.number, strike.told, strike.name.replace("…", f"{days.lake.database}.{days.lake.table}")).kill_in(
        days.restore
    )
    days.restore()
    assert_exact(days, range(400))
    with pytest.raises(AirflowSkipException, match="pinned since"):
        days.load()
    days.unpin()
    assert days.load()["status"] == "published"
    assert_exact(days, range(200, 1000))
    days.restore()
    assert_exact(days, range(400))
    days.unpin()
