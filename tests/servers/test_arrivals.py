"""Arrivals in replicated tables, on real servers: two shards of two replicas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, TransientError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.servers.nodes import FIRST, SECOND, Nodes
from tests.support.arrivals import BY_ARRIVAL, Arrivals
from tests.support.held_arrivals import NOT_MANY, approve, hold
from tests.support.lake import Lake
from tests.support.ledger_tasks import adopt
from tests.support.replicas import is_writable, replicated
from tests.support.strikes import Strikes, strikes
from tests.support.waiting import wait_until

__all__ = ["strikes"]

LAST = 3


@pytest.fixture
def by_month(empty_lake: Lake) -> Arrivals:
    """Two arrivals, loaded."""
    empty_lake.table = "arrivals"
    arrivals = Arrivals(empty_lake, key="toYYYYMM(at)", engine=replicated(empty_lake))
    arrivals.create()
    for number in range(4):
        arrivals.put(9, f"a{number}", 1000 * number, [9, 8, -20])
        arrivals.put(10, f"b{number}", 7000 + 1000 * number, [10, 9, -50])
    for arrival in (9, 10):
        arrivals.load(arrival)
    assert_exact(arrivals)
    return arrivals


def assert_exact(arrivals: Arrivals) -> None:
    """Compare the rows of both replicas of each shard."""
    arrivals.lake.on_every_node(f"SYSTEM SYNC REPLICA {arrivals.name}")
    of_nodes = arrivals.lake.on_every_node(f"SELECT at, number FROM {arrivals.name}")
    for replica in (0, 1):
        rows = (*of_nodes[replica], *of_nodes[2 + replica])
        assert sorted((at.replace(tzinfo=None), number) for at, number in rows) == arrivals.expected()
    # A server that is back drops what it missed, one table of its Replicated database after the other.
    wait_until(lambda: arrivals.lake.left_behind() == [])


@contextmanager
def fails_with_its_server() -> Iterator[None]:
    """A server that died does not answer, or is missed by the quorum of records that are a shard's."""
    with pytest.raises(Chs3Error) as raised:
        yield
    assert isinstance(raised.value, ClickHouseConnectionError) or "quorum" in str(raised.value)


def bring_back(arrivals: Arrivals) -> None:
    arrivals.lake.cluster.restart(LAST)
    wait_until(lambda: is_writable(arrivals.lake, LAST))


def kill_amid_publication(arrivals: Arrivals, nodes: Nodes, strikes: Strikes) -> None:
    """Load an arrival whose first replicas die before they publish it."""
    strikes.before("Publish ", lambda: nodes.kill(*FIRST))
    arrivals.put(11, "amid", 50_000, [11, 9, -20])
    with fails_with_its_server():
        arrivals.load(11)
    assert strikes.struck
    strikes.reset()


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Create ", "Record 16 objects", "Record the periods as published"])
def test_a_server_dies_while_a_table_is_adopted(by_month: Arrivals, strikes: Strikes, step: str) -> None:
    lake = by_month.lake
    for name in ("chs3_ledger", "chs3_objects", "chs3_loads"):
        lake.on_every_node(f"DROP TABLE IF EXISTS {lake.database}.{name} SYNC")
    strikes.before(step, lambda: lake.cluster.kill(LAST))
    with fails_with_its_server():
        adopt(lake, **BY_ARRIVAL)
    assert strikes.struck
    strikes.reset()
    bring_back(by_month)
    if step != "Record the periods as published":
        assert sum(period["rows"] for period in adopt(lake, **BY_ARRIVAL)) == len(by_month.expected())
    assert [by_month.load(arrival)["status"] for arrival in (9, 10)] == ["unchanged"] * 2
    by_month.put(11, "c", 50_000, [11, 9, -20])
    by_month.put(10, "late", 60_000, [9])
    assert [by_month.load(arrival)["loaded_objects"] for arrival in (10, 11)] == [1, 1]
    assert_exact(by_month)


@pytest.mark.thorough
def test_a_server_dies_while_a_held_arrival_is_approved(by_month: Arrivals, strikes: Strikes) -> None:
    by_month.put(11, "many", 50_000, [11, 9, -20], rows=5)
    hold(by_month, 11, says="held, the table is unchanged: with arrival 2026-11-11", **NOT_MANY)
    by_month.put(12, "few", 70_000, [12])
    assert by_month.load(12, **NOT_MANY)["status"] == "published"
    strikes.before("Publish ", lambda: by_month.lake.cluster.kill(LAST))
    with fails_with_its_server():
        approve(by_month, 11, **NOT_MANY)
    strikes.reset()
    bring_back(by_month)
    assert by_month.load(12, **NOT_MANY)["status"] == by_month.load(11, **NOT_MANY)["status"] == "unchanged"
    assert_exact(by_month)


@pytest.mark.thorough
def test_replicas_may_be_down_in_turns(by_month: Arrivals, nodes: Nodes) -> None:
    # Those that begin records are down, then back, then the others are down: each time, months get rows.
    for arrival, down in enumerate((FIRST, SECOND, FIRST), start=11):
        nodes.kill(*down)
        by_month.put(arrival, f"down{arrival}", 10_000 * arrival, [arrival, 9, -20, -50])
        assert by_month.load(arrival)["loaded_objects"] == 1
        nodes.bring_back()
        by_month.put(arrival, f"back{arrival}", 10_000 * arrival + 5_000, [arrival, -20, -50])
        assert by_month.load(arrival)["loaded_objects"] == 1
        assert_exact(by_month)
    assert [by_month.load(arrival)["status"] for arrival in range(9, 14)] == ["unchanged"] * 5


@pytest.mark.thorough
def test_one_that_comes_back_gets_the_records_of_objects_of_an_unchanged_arrival(
    by_month: Arrivals, nodes: Nodes
) -> None:
    nodes.kill(*FIRST)
    by_month.put(11, "down", 50_000, [11, 9, -20])
    by_month.load(11)
    nodes.bring_back()
    assert by_month.load(11)["status"] == "unchanged"
    nodes.kill(*SECOND)
    by_month.put(11, "down_again", 60_000, [11, 9, -20])
    assert by_month.load(11)["loaded_objects"] == 1
    nodes.bring_back()
    assert_exact(by_month)


@pytest.mark.thorough
def test_a_replica_that_died_amid_a_publication_leaves_nothing_unfinished(
    by_month: Arrivals, nodes: Nodes, strikes: Strikes
) -> None:
    kill_amid_publication(by_month, nodes, strikes)
    # It publishes what was staged.
    assert by_month.load(11)["status"] == "unchanged"
    nodes.bring_back()
    # They have the intents alone.
    plan = PlanLoadsOperator(task_id="plan", periods=["2026-11-11"], load=by_month.operator(11).as_load()).planned({})
    assert [(planned.to_do, planned.reason) for planned in plan] == [("leave", "as published")]
    assert by_month.load(11)["status"] == "unchanged"
    assert_exact(by_month)


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["", "ALTER TABLE {} DELETE WHERE number >= 50000 SETTINGS mutations_sync = 1"])
def test_an_arrival_waits_for_a_replica_that_may_know_of_others(by_month: Arrivals, nodes: Nodes, change: str) -> None:
    if by_month.lake.cluster.database_engine:
        pytest.skip("records of a Replicated database are a shard's: tests/servers/test_replicated_database.py")
    nodes.kill(*SECOND)
    by_month.put(11, "down", 50_000, [11, 9, -20])
    by_month.load(11)
    nodes.bring_back()
    by_month.lake.on_every_node(f"SYSTEM SYNC REPLICA {by_month.name}")
    nodes.kill(*FIRST)
    for place in SECOND if change else ():
        by_month.lake.on_node(place, change.format(by_month.name))
    for policy in ("fail", "reload"):
        with pytest.raises(TransientError, match=r"may know, but is down: start it\.$"):
            by_month.load(10, on_target_changed=policy)
    nodes.bring_back()
    policy, first = ("reload", "published") if change else ("fail", "unchanged")
    statuses = [by_month.load(arrival, on_target_changed=policy)["status"] for arrival in (10, 11)]
    assert statuses == [first, "unchanged"]
    assert_exact(by_month)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM {} WHERE number % 2 = 0 SETTINGS lightweight_deletes_sync = 1",
        "ALTER TABLE {} DELETE WHERE number % 2 = 0 SETTINGS mutations_sync = 1",
        "INSERT INTO {} SELECT at, number + 1000000 FROM {}",
    ],
)
def test_others_change_rows_while_a_replica_is_down(by_month: Arrivals, nodes: Nodes, change: str) -> None:
    nodes.kill(*SECOND)
    for place in FIRST:
        by_month.lake.on_node(place, change.format(*[by_month.name] * 2))
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        by_month.load(9)
    assert {by_month.load(arrival, on_target_changed="reload")["status"] for arrival in (9, 10)} == {"published"}
    nodes.bring_back()
    assert [by_month.load(arrival)["status"] for arrival in (9, 10)] == ["unchanged"] * 2
    assert_exact(by_month)


@pytest.mark.thorough
def test_lost_records_of_objects_are_those_of_the_other_replica_or_refuse_the_load(
    by_month: Arrivals, nodes: Nodes
) -> None:
    lake, objects = by_month.lake, f"{by_month.lake.database}.chs3_objects"
    for place in (0, 3):
        lake.on_node(place, f"TRUNCATE TABLE {objects}")
    assert by_month.load(10)["status"] == "unchanged"
    for place in (0, 2):
        lake.on_node(place, f"DROP TABLE {objects} SYNC")
    by_month.put(10, "late", 60_000, [10, -50])
    assert by_month.load(10)["loaded_objects"] == 1
    assert_exact(by_month)
    nodes.kill(*SECOND)
    for place in (0, 2):
        lake.on_node(place, f"DROP TABLE {objects} SYNC")
    with pytest.raises(TransientError, match="may know, but is down: start it"):
        by_month.load(10)
    nodes.bring_back()
    assert by_month.load(10)["status"] == "unchanged"
    lake.on_every_node(f"DROP TABLE {objects} SYNC")
    with pytest.raises(AirflowFailException, match="holds rows of which no record says which objects they are from"):
        by_month.load(10)
    assert_exact(by_month)


@pytest.mark.thorough
def test_what_only_a_replica_without_records_of_objects_knows_is_not_overwritten(
    by_month: Arrivals, nodes: Nodes
) -> None:
    nodes.kill(*SECOND)
    by_month.put(11, "down", 50_000, [11, 9, -20])
    by_month.load(11)
    nodes.bring_back()
    for place in (0, 2):
        by_month.lake.on_node(place, f"DROP TABLE {by_month.lake.database}.chs3_objects SYNC")
    before = by_month.expected()
    by_month.put(10, "b0", 90_000, [10, 9, -50])
    with pytest.raises(AirflowFailException, match="holds rows of which no record says which objects they are from"):
        by_month.load(10)
    assert by_month.found() == before


@pytest.mark.thorough
def test_what_a_replica_staged_before_others_went_on_without_it_is_not_published(
    by_month: Arrivals, nodes: Nodes, strikes: Strikes
) -> None:
    kill_amid_publication(by_month, nodes, strikes)
    by_month.load(11)
    by_month.put(12, "later", 60_000, [12, 9, -20, -50])
    by_month.load(12)
    # The others are gone before it has fetched anything of that.
    for place in SECOND:
        by_month.lake.cluster.kill(place)
    nodes.down = {*SECOND}
    for place in FIRST:
        by_month.lake.cluster.restart(place)
    nodes.wait_until_gone(*SECOND)
    with pytest.raises(Chs3Error, match=r"may (know|have it), but is down"):
        by_month.load(9)
    nodes.bring_back()
    assert [by_month.load(arrival)["status"] for arrival in (9, 10, 11, 12)] == ["unchanged"] * 4
    # The next load that stages rows drops what is left.
    by_month.put(13, "next", 70_000, [13, -20])
    by_month.load(13)
    assert_exact(by_month)
