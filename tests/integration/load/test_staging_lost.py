"""Staging that loses rows between its count and REPLACE PARTITION: the period must not lose them."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import IS_OLDEST, PERIOD, Lake
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes"]

pytestmark = pytest.mark.three_nodes

FIRST = Trips(rows_per_period=900, files_per_period=6)
SECOND = Trips(seed=2, rows_per_period=900, files_per_period=6)


@pytest.fixture
def loaded_lake(trips_lake: Lake) -> Lake:
    """A period that is published, and has other objects now, of which each node reads some."""
    trips_lake.upload(FIRST)
    trips_lake.load()
    trips_lake.upload(SECOND)
    return trips_lake


def lose(lake: Lake, what: str, *, at_most: int) -> list[int]:
    """Drop something of staging, on so many of the nodes that have rows in it; gives these nodes."""
    struck = []
    for node in range(len(lake.cluster.nodes)):
        sql = (
            f"SELECT DISTINCT table FROM system.parts WHERE active AND database = '{lake.database}' "
            "AND table LIKE 'chs3\\_%\\_%'"
        )
        for (staging,) in lake.on_node(node, sql):
            if len(struck) < at_most:
                lake.on_node(node, f"ALTER TABLE {lake.database}.{staging} {what} SETTINGS mutations_sync = 1")
                struck.append(node)
    return struck


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("at_most", [3, 1])
@pytest.mark.parametrize("what", ["DROP PARTITION ID '202610'", "DELETE WHERE trip_id % 2"])
def test_rows_that_are_gone_before_it_is_published(
    loaded_lake: Lake, strikes: Strikes, what: str, at_most: int
) -> None:
    strikes.before("Count what is staged once more", lambda: lose(loaded_lake, what, at_most=at_most))
    with pytest.raises(AirflowFailException, match=r"held \d+ rows .* and holds \d+ now.*The period was not published"):
        loaded_lake.load()
    assert loaded_lake.facts() == FIRST.facts(PERIOD)
    strikes.reset()
    loaded_lake.load()
    assert loaded_lake.facts() == SECOND.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.parametrize("at_most", [3, 1])
def test_a_partition_that_is_gone_in_the_moment_of_replacing(loaded_lake: Lake, strikes: Strikes, at_most: int) -> None:
    before = loaded_lake.rows_per_node()
    struck: list[int] = []
    drop = "DROP PARTITION ID '202610'"
    strikes.before(f"Publish {PERIOD}", lambda: struck.extend(lose(loaded_lake, drop, at_most=at_most)))
    # 25.8 replaces a partition by nothing, too: the period is not published then, and the next load fixes it.
    emptied, kept = "holds 0 rows of .* right after publishing", "lost its rows on .* right before they were published"
    with pytest.raises(AirflowFailException, match=emptied if IS_OLDEST else kept):
        loaded_lake.load()
    now = loaded_lake.rows_per_node()
    assert [now[node] for node in struck] == [0 if IS_OLDEST else before[node] for node in struck]
    strikes.reset()
    loaded_lake.load()
    assert loaded_lake.facts() == SECOND.facts(PERIOD)
