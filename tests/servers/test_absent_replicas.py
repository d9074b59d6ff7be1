"""Loads while replicas are down, and what becomes of those that come back."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.client.session import Session
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, TransientError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.plugin.observation.objects import look_at_objects
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.trips import Trips
from tests.servers.nodes import FIRST, SECOND, Nodes
from tests.support import deferring
from tests.support.holds import run
from tests.support.lake import PERIOD, Lake
from tests.support.proofs import prove
from tests.support.replicas import OTHER, TRIPS
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes"]

THIRD = Trips(seed=3, rows_per_period=9_000, files_per_period=24)


def load_without_the_second(nodes: Nodes, lake: Lake) -> None:
    """Load with all replicas up, and other objects while the second ones are down; then start those again."""
    lake.load()
    nodes.kill(*SECOND)
    lake.upload(OTHER)
    lake.load()
    nodes.bring_back()


def test_one_replica_of_each_shard_is_enough(nodes: Nodes, lake: Lake) -> None:
    nodes.kill(*SECOND)
    assert lake.load()["status"] == "published"
    assert nodes.facts_on(0) == TRIPS.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
    nodes.bring_back()
    assert lake.load()["status"] == "unchanged"
    assert nodes.facts() == TRIPS.facts(PERIOD)
    # They had no ledger, and have one now, with what the others had recorded.
    nodes.kill(*FIRST)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_replicas_may_be_down_in_turns(nodes: Nodes, lake: Lake) -> None:
    load_without_the_second(nodes, lake)
    # They have come back with older records.
    assert lake.load()["status"] == "unchanged"
    assert nodes.facts() == OTHER.facts(PERIOD)
    nodes.kill(*FIRST)
    lake.upload(THIRD)
    lake.load()
    assert nodes.facts_on(1) == THIRD.facts(PERIOD)
    nodes.bring_back()
    assert lake.load()["status"] == "unchanged"
    assert nodes.facts() == THIRD.facts(PERIOD)


@pytest.mark.thorough
def test_the_page_reads_the_objects_of_a_period_from_a_replica_that_was_up(nodes: Nodes, lake: Lake) -> None:
    lake.load()
    nodes.kill(*FIRST)
    lake.upload(THIRD)
    lake.load()
    nodes.bring_back()
    assert objects_on_page(lake) == (THIRD.facts(PERIOD).rows, "")
    nodes.kill(*SECOND)
    rows, error = objects_on_page(lake)
    assert rows == TRIPS.facts(PERIOD).rows
    assert re.match("As far as known without 127.*, 127.*, which may know a newer load: ", error)


def objects_on_page(lake: Lake) -> tuple[int, str]:
    """Return the rows of the objects that the page shows, and its note."""
    look = look_at_objects(lake.cluster.name, TableName(lake.database, lake.table), Period.parse(PERIOD))
    seen = Runner(session=Session.of(ClickHouseHook().options), log=logging.getLogger(__name__)).run(look)
    return sum(of.rows or 0 for of in seen.objects if of.state != "gone"), seen.error


@pytest.mark.thorough
def test_rows_held_while_replicas_were_down_are_held_again_before_they_are_approved(nodes: Nodes, lake: Lake) -> None:
    def hold() -> None:
        with pytest.raises(AirflowSkipException, match="held, the table is unchanged"):
            lake.load(on_failed_check="hold", checks={"statements": {"never": "SELECT false"}})

    def approve() -> None:
        conf = {"database": lake.database, "table": lake.table, "periods": [PERIOD], "approve": True}
        lake.operator().execute(run({"chs3_reload": conf}))

    lake.load()
    nodes.kill(*SECOND)
    lake.upload(OTHER)
    hold()
    nodes.bring_back()
    # Staging of a Replicated database is a shard's.
    if not lake.cluster.database_engine:
        with pytest.raises(AirflowFailException, match=r"its held rows are not on .*, which may have been down"):
            approve()
        assert nodes.facts() == TRIPS.facts(PERIOD)
        hold()
    approve()
    assert nodes.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
def test_one_that_missed_the_last_load_does_not_take_it_for_somebody_elses(nodes: Nodes, lake: Lake) -> None:
    load_without_the_second(nodes, lake)
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")
    nodes.kill(*FIRST)
    with pytest.raises(TransientError, match=r"may (know|have it), but is down: start it"):
        lake.load()
    nodes.bring_back()
    assert lake.load()["status"] == "unchanged"
    assert nodes.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
def test_a_load_goes_on_without_its_process(nodes: Nodes, lake: Lake) -> None:
    nodes.kill(*SECOND)
    result = deferring.run(lake, {})
    while isinstance(result, deferring.Deferred):
        result = result.resume()
    assert result["status"] == "published"
    assert nodes.facts_on(0) == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_night_plans_loads_and_waits_for_merges(nodes: Nodes, lake: Lake) -> None:
    lake.load()
    nodes.kill(*SECOND)
    names = {"table": lake.table, "database": lake.database, "cluster": lake.cluster.name}
    plan = PlanLoadsOperator(
        task_id="plan", periods=[PERIOD], load=Load(bucket=lake.bucket, key="trips/{YYYY-MM}/", **names)
    )
    assert plan.execute({}) == []
    lake.upload(OTHER)
    assert plan.execute({}) == [PERIOD]
    lake.load()
    assert ClickHouseMergeHealthSensor(task_id="merges", periods=[PERIOD], **names).poke({})


@pytest.fixture
def frozen(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The number of a server that can be frozen, and goes on in the end; loads wait a minute for answers."""
    connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    connection["extra"]["send_receive_timeout_seconds"] = 60
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    yield 1
    nodes.cluster.thaw(1)


@pytest.mark.thorough
def test_one_that_froze_is_given_up_after_seconds(nodes: Nodes, lake: Lake, frozen: int) -> None:
    lake.load()
    nodes.cluster.freeze(frozen)
    nodes.wait_until_gone(frozen)
    lake.upload(OTHER)
    began = time.monotonic()
    assert lake.load()["status"] == "published"
    assert time.monotonic() - began < 240
    nodes.thaw(frozen)
    assert nodes.facts() == OTHER.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_one_that_freezes_before_it_publishes_fails_the_load_after_seconds(
    nodes: Nodes, lake: Lake, frozen: int, strikes: Strikes
) -> None:
    lake.load()
    lake.upload(OTHER)
    strikes.before("Publish", lambda: nodes.cluster.freeze(frozen))
    began = time.monotonic()
    with pytest.raises(TransientError):
        lake.load()
    assert time.monotonic() - began < 240
    strikes.reset()
    nodes.thaw(frozen)
    lake.load()
    assert nodes.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
def test_one_that_keeper_takes_for_alive_is_waited_for(nodes: Nodes, lake: Lake) -> None:
    nodes.cluster.kill(1)
    nodes.down.add(1)
    with pytest.raises(ClickHouseConnectionError, match="Keeper counts this one as alive"):
        lake.load()


@pytest.mark.thorough
def test_a_shard_without_any_replica_up_fails_the_load(nodes: Nodes, lake: Lake) -> None:
    lake.load()
    lake.upload(OTHER)
    for node in (2, 3):
        nodes.cluster.kill(node)
        nodes.down.add(node)
    with pytest.raises(ClickHouseConnectionError):
        lake.load()
    nodes.bring_back()
    assert nodes.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_of_two_loads_that_see_other_replicas_up_the_newer_one_publishes(
    nodes: Nodes, lake: Lake, strikes: Strikes
) -> None:
    lake.load()
    nodes.kill(*FIRST)
    lake.upload(OTHER)

    def another() -> None:
        nodes.bring_back()
        lake.upload(THIRD)
        lake.load()

    strikes.before("Publish", another)
    with pytest.raises(AirflowFailException, match="started later and took over"):
        lake.load()
    assert nodes.facts() == THIRD.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_what_a_stale_load_publishes_from_replicas_that_were_down_is_mended_by_the_next_run(
    nodes: Nodes, lake: Lake, strikes: Strikes
) -> None:
    """Its staging is still there on replicas on which nobody could drop it."""
    lake.load()
    lake.upload(OTHER)

    def another() -> None:
        nodes.kill(*FIRST)
        lake.upload(THIRD)
        lake.load()
        nodes.bring_back()

    strikes.before("Publish", another)
    with suppress(Chs3Error, AirflowFailException):
        lake.load()
    result = lake.load()
    # In a Replicated database, replicas that are back drop the staging first: the stale load publishes nothing.
    is_mended = not lake.cluster.database_engine
    assert ("published after it" in result["reason"]) == is_mended
    assert result["status"] == ("published" if is_mended else "unchanged")
    assert nodes.facts() == THIRD.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_a_period_that_somebody_put_back_is_not_taken_for_a_stale_load(lake: Lake) -> None:
    lake.load()
    kept = replace(lake, table="kept")
    kept.create_table()
    for node in FIRST:
        lake.on_node(node, f"ALTER TABLE {lake.database}.kept ATTACH PARTITION ID '202610' FROM {lake.database}.trips")
    lake.upload(OTHER)
    lake.load()
    for node in FIRST:
        lake.on_node(node, f"ALTER TABLE {lake.database}.trips REPLACE PARTITION ID '202610' FROM {lake.database}.kept")
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.trips")
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        lake.load()


@pytest.mark.thorough
def test_a_proof_reads_the_replicas_that_are_up_and_stops_without_any_of_a_shard(nodes: Nodes, lake: Lake) -> None:
    where = {"key": "trips/{YYYY-MM}/"}
    load_without_the_second(nodes, lake)
    nodes.kill(*SECOND)
    assert prove(lake, **where)["reason"] == "14,000 rows"
    nodes.cluster.kill(FIRST[1])
    nodes.down.add(FIRST[1])
    with pytest.raises((Chs3Error, AirflowFailException), match=str(lake.cluster.nodes[FIRST[1]].tcp_port)):
        prove(lake, **where)
