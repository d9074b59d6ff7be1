"""New objects of a published period of a replicated table are loaded alone: two shards of two replicas."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.servers.nodes import FIRST, SECOND, Nodes
from tests.support import replaced_objects
from tests.support.added_files import create, csv, load, numbers, publish_first, put
from tests.support.lake import PERIOD, Lake
from tests.support.replicas import replicated


@pytest.fixture
def events(empty_lake: Lake) -> Lake:
    """A replicated table of events, with a period of six files published."""
    empty_lake.table = "events"
    create(empty_lake, replicated(empty_lake))
    publish_first(empty_lake)
    return empty_lake


@pytest.mark.thorough
def test_new_objects_are_loaded_alone(events: Lake) -> None:
    for number in (6, 7):
        put(events, number)
        assert load(events)["loaded_objects"] == 1
        assert numbers(events) == list(range(10 * number + 10))
    assert load(events)["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("is_found_unchanged", [False, True])
def test_what_was_published_while_a_replica_was_down_is_added_to(
    events: Lake, nodes: Nodes, *, is_found_unchanged: bool
) -> None:
    nodes.kill(*FIRST)
    put(events, 6)
    assert load(events)["loaded_objects"] == 7
    nodes.bring_back()
    if is_found_unchanged:
        assert load(events)["status"] == "unchanged"
    for number in (7, 8):
        put(events, number)
        assert load(events)["loaded_objects"] == 1
    nodes.kill(*SECOND)
    assert load(events)["status"] == "unchanged"
    nodes.bring_back()
    assert numbers(events) == list(range(90))


@pytest.mark.thorough
def test_checks_see_each_row_once(events: Lake) -> None:
    unique = {"column_mapping": {"n": {"unique_check": {"equal_to": 0}, "distinct_check": {"equal_to": 70}}}}
    put(events, 6)
    assert [each["found"] for each in load(events, checks=unique)["checks"]] == ["0", "70"]
    events.put(f"events/{PERIOD}/copy.csv", csv(0))
    with pytest.raises(AirflowFailException, match="checks failed: unique_check of n is 10, wanted equal to 0"):
        load(events, checks=unique)
    assert numbers(events) == list(range(70))


@pytest.mark.thorough
def test_rows_of_overwritten_and_deleted_objects_are_replaced_alone(empty_lake: Lake) -> None:
    lake = empty_lake
    lake.table = "events"
    replaced_objects.create(lake, replicated(lake))
    replaced_objects.publish_first(lake)
    replaced_objects.put(lake, 3, first=1_000, rows=7)
    assert replaced_objects.load(lake)["loaded_objects"] == 1
    replaced_objects.delete(lake, 5)
    replaced_objects.put(lake, 12, first=120)
    assert replaced_objects.load(lake)["loaded_objects"] == 1
    expected = [*replaced_objects.published(without=(3, 5)), *((120 + row, 12) for row in range(10))]
    expected += ((1_000 + row, 3) for row in range(7))
    of_replicas = lake.on_every_node(f"SELECT n, toUInt8(substring(source, -6, 2)) FROM {lake.database}.events")
    for replica in (0, 1):
        assert sorted(of_replicas[replica] + of_replicas[2 + replica]) == sorted(expected)
    assert replaced_objects.load(lake)["status"] == "unchanged"


@pytest.mark.thorough
def test_copies_of_objects_are_loaded_too(events: Lake) -> None:
    """Replicated tables drop parts of equal content without a word where they can."""
    expected = list(range(60))
    for number in range(4):
        events.put(f"events/{PERIOD}/copy-{number}.csv", csv(0))
        load(events)
        expected += range(10)
        assert numbers(events) == sorted(expected)


@pytest.mark.thorough
def test_rows_that_a_replica_is_still_deleting_do_not_come_back(events: Lake) -> None:
    put(events, 6)
    for follower in (1, 3):
        delete = f"ALTER TABLE {events.database}.events DELETE WHERE n = 5 SETTINGS mutations_sync = 0"
        events.on_node(follower, delete)
    with pytest.raises(Exception, match="was changed since it was published"):
        load(events)
    assert load(events, on_target_changed="reload")["loaded_objects"] == 7
    assert numbers(events) == list(range(70))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["Replacing", "Summing", "Aggregating"])
def test_engines_that_merge_rows(empty_lake: Lake, kind: str) -> None:
    lake = empty_lake
    lake.table = "events"
    create(lake, replicated(lake, kind))
    publish_first(lake)
    for number in (6, 7):
        put(lake, number)
        assert load(lake)["loaded_objects"] == 1
        assert numbers(lake) == list(range(10 * number + 10))
