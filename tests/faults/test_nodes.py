"""Nodes that die, are down, or forget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.load import publish
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, TransientError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.faults.mortal_nodes import NEW, OLD, mortal_lake, name_of, own_cluster
from tests.support.lake import PERIOD, Lake
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert
from tests.support.strikes import Strikes

#: Fixtures.
__all__ = ["mortal_lake", "own_cluster"]


@pytest.mark.thorough
@pytest.mark.parametrize("node", [0, 1])
def test_a_node_killed_during_the_insert_costs_a_reload(
    mortal_lake: Lake, own_cluster: ClickHouseCluster, node: int
) -> None:
    with ThreadPoolExecutor() as pool:
        load = pool.submit(mortal_lake.operator(select=SLOW, settings=SLOW_SETTINGS).execute, {})
        wait_for_insert(mortal_lake)
        own_cluster.kill(node)
        with pytest.raises(Chs3Error, match=name_of(mortal_lake, node)):
            load.result(timeout=300)
    own_cluster.restart(node)
    assert_untouched(mortal_lake, OLD)
    mortal_lake.load()
    assert_exact(mortal_lake, NEW)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("step", ["Publish", f"Record {PERIOD} as published"])
def test_a_node_killed_around_its_publishing_costs_a_reload(
    mortal_lake: Lake, own_cluster: ClickHouseCluster, strikes: Strikes, step: str, node: int
) -> None:
    strikes.before(step, lambda: own_cluster.kill(node))
    with pytest.raises(ClickHouseConnectionError, match=name_of(mortal_lake, node)):
        mortal_lake.load()
    own_cluster.restart(node)
    strikes.reset()
    assert mortal_lake.load()["status"] == "published"
    assert_exact(mortal_lake, NEW)
    assert mortal_lake.load()["status"] == "unchanged"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "step", ["Publish", "Remove the replaced parts", "Look for replaced parts", f"Record {PERIOD} as published"]
)
def test_a_node_killed_right_after_it_published_shows_no_row_twice(
    mortal_lake: Lake, own_cluster: ClickHouseCluster, strikes: Strikes, step: str
) -> None:
    """Before 26.6 the parts that were replaced come back, as long as they are on the disk."""
    strikes.after(step, lambda: own_cluster.kill(1))
    with suppress(ClickHouseConnectionError):
        mortal_lake.load()
    assert strikes.struck
    own_cluster.restart(1)
    strikes.reset()
    assert mortal_lake.load()["status"] == ("unchanged" if step.startswith("Record") else "published")
    assert_exact(mortal_lake, NEW)
    assert mortal_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_a_table_that_is_attached_again_shows_no_row_twice(mortal_lake: Lake) -> None:
    """As after an orderly restart."""
    mortal_lake.on_node(0, f"SYSTEM STOP MERGES {mortal_lake.database}.trips")
    mortal_lake.load()
    mortal_lake.on_every_node(f"DETACH TABLE {mortal_lake.database}.trips")
    mortal_lake.on_every_node(f"ATTACH TABLE {mortal_lake.database}.trips")
    assert_exact(mortal_lake, NEW)
    assert mortal_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("lost", "engine"),
    # Merges may leave nothing of a part in the second: one that is gone is a change only if the server lost it.
    [("broken", "MergeTree"), ("broken", "SummingMergeTree"), ("dropped", "MergeTree")],
)
def test_parts_that_a_server_finds_broken_cost_a_reload_and_other_lost_ones_stop_it(
    mortal_lake: Lake, own_cluster: ClickHouseCluster, lost: str, engine: str
) -> None:
    name = f"{mortal_lake.database}.trips"
    mortal_lake.on_every_node(
        f"CREATE TABLE {name}_2 AS {name} ENGINE = {engine} PARTITION BY toYYYYMM(pickup_at) ORDER BY trip_id"
    )
    mortal_lake.on_every_node(f"EXCHANGE TABLES {name} AND {name}_2")
    mortal_lake.load()
    of_parts = f"FROM system.parts WHERE database = '{mortal_lake.database}' AND table = 'trips' AND active AND rows"
    node = mortal_lake.rows_per_node().index(max(mortal_lake.rows_per_node()))
    path, part = mortal_lake.on_node(node, f"SELECT path, name {of_parts} LIMIT 1")[0]
    if lost == "dropped":
        mortal_lake.on_node(node, f"ALTER TABLE {mortal_lake.database}.trips DROP PART '{part}'")
        with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
            mortal_lake.load()
        return
    own_cluster.kill(node)
    for file in Path(path).iterdir():
        # As a disk leaves it that lost its power.
        file.write_bytes(b"")
    own_cluster.restart(node)
    result = mortal_lake.load()
    assert (result["status"], "were broken when a server started" in result["reason"]) == ("published", True)
    assert_exact(mortal_lake, NEW)
    assert mortal_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_a_query_that_reads_what_was_replaced_keeps_the_period_unpublished(
    mortal_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_WAITS_FOR_REPLACED_SECONDS", (0.1, 0.2))
    trips = f"{mortal_lake.database}.trips"
    # Which node reads which object differs.
    place = next(place for place in range(3) if mortal_lake.on_node(place, f"SELECT count() FROM {trips}") != [(0,)])
    # It reads until it is killed, however slow the machine is.
    settings = "max_block_size = 1, function_sleep_max_microseconds_per_block = 0"
    sql = f"SELECT max(trip_id + sleepEachRow(1)) FROM {trips} SETTINGS {settings}"
    of_it = "user = currentUser() AND query LIKE 'SELECT max(trip_id + sleepEachRow%'"
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(mortal_lake.on_node, place, sql)
        while mortal_lake.on_node(place, f"SELECT count() FROM system.processes WHERE {of_it}") != [(1,)]:
            assert not reading.done()
        with pytest.raises(TransientError, match="queries that began before still read its old rows"):
            mortal_lake.load()
        mortal_lake.on_node(place, f"KILL QUERY WHERE {of_it} SYNC")
        assert "Code: 394" in str(reading.exception())
    assert mortal_lake.load()["status"] == "published"
    assert_exact(mortal_lake, NEW)


@pytest.mark.thorough
def test_a_node_that_is_down_at_the_start_is_named_and_a_later_run_loads(
    mortal_lake: Lake, own_cluster: ClickHouseCluster
) -> None:
    own_cluster.kill(2)
    with pytest.raises(ClickHouseConnectionError, match=f"check that {name_of(mortal_lake, 2)} is up"):
        mortal_lake.load()
    own_cluster.restart(2)
    assert_untouched(mortal_lake, OLD)
    mortal_lake.load()
    assert_exact(mortal_lake, NEW)
