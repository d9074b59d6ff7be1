"""Loads into a database of engine Replicated: one shard of two replicas, on real servers of the oldest version."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.topology import RECORDS_SCHEMA
from airflow_provider_chs3.exceptions import Chs3Error, TransientError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from tests.servers.nodes import Nodes
from tests.support.arrivals import BY_ARRIVAL, Arrivals, touched
from tests.support.breaking import Breaker, Failed, broken_at_each_step
from tests.support.killing import writes
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.ledger_tasks import adopt, forget
from tests.support.narrow_user import WITH_NARROW_USER_OF_SHARDS, WITHOUT_COMPILATION, narrow_connection
from tests.support.replicas import OTHER, TRIPS, is_writable, replicated
from tests.support.strikes import Strikes, strikes
from tests.support.waiting import wait_until

#: A fixture.
__all__ = ["strikes"]

#: With a part for each row, REPLACE PARTITION is slow.
SLOW_ROWS = (
    "SELECT number, toDateTime('2026-10-05 00:00:00') FROM numbers(150) SETTINGS max_threads = 1, max_block_size = 1, "
    "min_insert_block_size_rows = 1, min_insert_block_size_bytes = 1"
)
#: How often it races with the successor of its attempt: a hundred times to prove the fence.
RACES = int(os.environ.get("CHS3_RACES", "3"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClickHouseCluster]:
    """Servers of all these tests."""
    if why := keeper.missing():
        pytest.skip(why)
    with ClickHouseCluster.start(
        2,
        replicas=2,
        program="server",
        replicated_databases=True,
        user_settings=WITHOUT_COMPILATION,
        **WITH_NARROW_USER_OF_SHARDS,
    ) as running:
        yield running


@pytest.fixture
def lake(cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake with a replicated table, and trips for it."""
    with lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table(engine=replicated(lake))
        lake.upload(TRIPS)
        yield lake


def test_all_tables_of_a_load_are_a_shards_and_hold_one_record_for_it(lake: Lake) -> None:
    assert lake.load()["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
    lake.upload(OTHER)
    lake.load()
    assert lake.facts() == OTHER.facts(PERIOD)
    engines = f"SELECT DISTINCT engine FROM system.tables WHERE database = '{lake.database}' AND name LIKE 'chs3%'"
    assert lake.on_every_node(engines) == [[("ReplicatedMergeTree",)]] * 2
    events = f"SELECT event, count() FROM {lake.database}.chs3_ledger GROUP BY event ORDER BY event"
    assert lake.on_every_node(events) == [[("intent", 2), ("published", 2)]] * 2


def test_the_first_load_by_arrival_finds_no_records_and_later_ones_refuse_where_they_are_lost(lake: Lake) -> None:
    lake.table = "arrivals"
    arrivals = Arrivals(lake, engine=replicated(lake))
    arrivals.create()
    arrivals.put(10, "a", 0, [10, 9])
    assert arrivals.load(10)["status"] == "published"
    arrivals.put(11, "b", 50, [11, 9])
    for records in ("chs3_objects", "chs3_ledger"):
        lake.on_node(0, f"DROP TABLE {lake.database}.{records} SYNC")
        with pytest.raises(AirflowFailException, match=r"no record says which objects|rows that no load wrote"):
            arrivals.load(11)
    forget(lake, "2026-11-09", "2026-11-10")
    adopt(lake, **BY_ARRIVAL)
    assert touched(arrivals.load(11)) == [9, 11]
    arrivals.assert_exact()


@pytest.mark.thorough
def test_with_a_replica_down_the_records_of_its_shard_tell_whose_rows_are_there(
    cluster: ClickHouseCluster, lake: Lake
) -> None:
    lake.table = "arrivals"
    arrivals, nodes = Arrivals(lake, engine=replicated(lake)), Nodes(cluster, lake)
    arrivals.create()
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [9])
    arrivals.load(10)
    arrivals.load(11)
    lake.on_node(0, f"ALTER TABLE {arrivals.name} DETACH PARTITION '2026-11-09'")
    nodes.kill(1)
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        arrivals.load(11)
    assert touched(arrivals.load(11, on_target_changed="reload")) == [9]
    nodes.bring_back()
    assert [arrivals.load(arrival)["status"] for arrival in (10, 11)] == ["unchanged"] * 2
    arrivals.assert_exact()


@pytest.mark.thorough
def test_records_are_kept_whatever_token_a_profile_gives(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = narrow_connection(lake.cluster)
    connection["extra"]["settings"] = {"insert_deduplication_token": "night", "insert_deduplicate": 1}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    assert lake.load()["status"] == "published"
    lake.upload(OTHER)
    assert lake.load()["reason"] == "its objects changed since it was published"
    assert lake.load()["status"] == "unchanged"
    assert lake.facts() == OTHER.facts(PERIOD)
    events = f"SELECT event, count() FROM {lake.database}.chs3_ledger GROUP BY event ORDER BY event"
    assert lake.on_every_node(events) == [[("intent", 2), ("published", 2)]] * 2


@pytest.mark.thorough
def test_a_table_that_a_load_creates_is_on_all_servers(lake: Lake) -> None:
    lake.table = "created"
    assert lake.load(create_table="if_missing")["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_plain_tables_of_records_are_named_with_the_statement_that_renames_them(lake: Lake) -> None:
    lake.on_node(
        0, f"CREATE TABLE {lake.database}.chs3_ledger (a Int) ENGINE = MergeTree ORDER BY a COMMENT '{RECORDS_SCHEMA}'"
    )
    with pytest.raises(
        Exception, match=r"engine and comment are MergeTree .* not ReplicatedMergeTree .* run RENAME TABLE .* on one of"
    ):
        lake.load()
    lake.on_node(0, f"RENAME TABLE {lake.database}.chs3_ledger TO {lake.database}.old_chs3_ledger")
    assert lake.load()["status"] == "published"


def test_a_plain_target_is_refused(lake: Lake) -> None:
    lake.table = "plain"
    lake.create_table()
    with pytest.raises(Exception, match="has the engine Replicated, which would run each REPLACE PARTITION"):
        lake.load(cluster=lake.cluster.single_node_name)


def test_a_cluster_without_one_of_the_databases_servers_is_refused(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = lake.cluster.single_node_name
    refusal = f"has 2 servers, of which cluster '{alone}' names 1"
    place = {"table": lake.table, "database": lake.database, "cluster": alone, "bucket": lake.bucket}
    plan = PlanLoadsOperator(task_id="plan", **place, key="trips/{YYYY-MM}/", periods=[PERIOD])
    for run in (lambda: lake.load(cluster=alone), lambda: plan.execute({})):
        with pytest.raises(Exception, match=refusal):
            run()
    options = [f"--{name}={value}" for name, value in place.items()]
    assert main(["doctor", *options, "--key", "trips/{YYYY-MM}/", "--period", PERIOD]) == 1
    assert refusal in capsys.readouterr().out


@pytest.mark.thorough
def test_a_run_after_an_error_at_any_step_ends_in_the_objects_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 0
    for number, trips in broken_at_each_step(lake, Breaker(monkeypatch), (TRIPS, OTHER)):
        assert lake.facts() == trips.facts(PERIOD), f"broken off after step {number}"
        assert lake.left_behind() == [], f"broken off after step {number}"
    assert number >= 5


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", [0, 1])
def test_a_run_after_a_server_was_killed_at_any_step_ends_in_the_objects_rows(
    cluster: ClickHouseCluster, lake: Lake, strikes: Strikes, place: int
) -> None:
    killed: list[str] = []
    for number in count():
        trips = (OTHER, TRIPS)[number % 2]
        lake.upload(trips)
        strikes.around_one(number, writes, lambda: killed_before(cluster, place))
        try:
            lake.load()
        except (AirflowFailException, Chs3Error):
            assert strikes.struck
        if not strikes.struck:
            break
        killed += strikes.struck
        strikes.reset()
        cluster.restart(place)
        wait_until(lambda: is_writable(lake, place))
        load_until_published(lake)
        assert lake.facts() == trips.facts(PERIOD), killed
        assert lake.left_behind() == [], killed
    assert len(killed) >= 5


@contextmanager
def killed_before(cluster: ClickHouseCluster, place: int) -> Iterator[None]:
    cluster.kill(place)
    yield


def load_until_published(lake: Lake) -> None:
    """Load, and again as Airflow would: a server that has just come back may lag."""
    for _ in range(3):
        try:
            lake.load()
        except (AirflowFailException, Chs3Error) as error:
            last = error
        else:
            return
    raise last


def rival(lake: Lake, nonce: str) -> str:
    """A staging table of another attempt at the period, whose parts are not merged."""
    target = TableName(lake.database, lake.table)
    name = f"{lake.database}.{Attempt(target, (Period.parse(PERIOD),), nonce).name}"
    lake.on_node(0, f"CREATE TABLE {name} AS {target}")
    lake.on_node(0, f"ALTER TABLE {name} MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1")
    return name


@pytest.mark.thorough
def test_servers_whose_clocks_differ_agree_which_attempt_goes_on(lake: Lake, strikes: Strikes) -> None:
    def create_earlier() -> None:
        strikes.reset()
        name = rival(lake, "0123456789abcdef").partition(".")[2]
        for node in lake.cluster.nodes:
            assert node.folder
            (file,) = node.folder.glob(f"data/store/*/*/{name}.sql")
            os.utime(file, (time.time() + 3600, time.time() + 3600))

    strikes.before("Create staging", create_earlier)
    assert lake.load()["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_one_that_began_earlier_yields(lake: Lake, strikes: Strikes) -> None:
    later: list[str] = []
    strikes.after("Create staging", lambda: later or later.append(rival(lake, "f123456789abcdef")))
    with pytest.raises(AirflowFailException, match="started later and took over"):
        lake.load()
    strikes.reset()
    lake.on_node(0, f"DROP TABLE {later[0]} SYNC")
    assert lake.load()["status"] == "published"


@pytest.mark.thorough
@pytest.mark.timeout(30 * RACES + 300)
def test_a_slow_replace_of_an_earlier_attempt_never_comes_over_its_successors(lake: Lake, strikes: Strikes) -> None:
    ended: list[str] = []

    def publish(name: str, node: int, delay_seconds: float) -> None:
        time.sleep(delay_seconds)
        with lake.cluster.nodes[node].client() as client:
            try:
                replace = f"ALTER TABLE {lake.database}.{lake.table} REPLACE PARTITION ID '202610' FROM {name}"
                client.execute(replace, query_id=f"{name.partition('.')[2]}_publish")
                ended.append("replaced")
            except ServerException as error:
                ended.append(str(error.code))

    for number in range(RACES):
        trips = (TRIPS, OTHER)[number % 2]
        lake.upload(trips)
        name = rival(lake, f"{number:016x}")
        lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) {SLOW_ROWS}")
        lake.on_every_node(f"SYSTEM SYNC REPLICA {name}")
        racer = threading.Thread(target=publish, args=(name, number % 2, number % 10 / 100))
        strikes.before("Drop staging", lambda racer=racer: None if racer.ident else racer.start())
        # The earlier attempt has stated no intent, so that its rows would pass for somebody's change.
        lake.load(on_target_changed="reload")
        strikes.reset()
        racer.join()
        lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")
        assert lake.facts() == trips.facts(PERIOD), (number, ended)
    assert len(ended) == RACES


class Stuck:
    """The first server, whose disk lost the metadata of a table to a power cut, but not its directory.

    ClickHouse flushes the metadata before it renames the file, and the folder of that name not at all.
    """

    def __init__(self, cluster: ClickHouseCluster, lake: Lake) -> None:
        self.cluster, self.lake = cluster, lake
        self.directory = Path()

    def lose(self, table: str) -> None:
        """Kill the server, and start it again without the metadata; it answers, but runs no statement any more."""
        of_table = f"database = '{self.lake.database}' AND name = '{table}'"
        ((uuid,),) = self.lake.on_node(0, f"SELECT toString(uuid) FROM system.tables WHERE {of_table}")
        data = self.lake.cluster.nodes[0].folder / "data"
        self.directory = data / "store" / uuid[:3] / uuid
        self.cluster.kill(0)
        (file,) = data.glob(f"store/*/*/{table}.sql")
        file.unlink()
        self.cluster.restart(0)
        wait_until(lambda: self._is_active(0))

    def mend(self) -> None:
        """Do what docs/replicas.md says."""
        wait_until(self._forgotten)
        self.directory.rename(self.directory.with_name("lost"))
        wait_until(lambda: self._is_active(1))

    def _forgotten(self) -> bool:
        of_table = f"JOIN system.tables t USING (database, table) WHERE t.uuid = '{self.directory.name}'"
        ((path,),) = self.lake.on_node(1, f"SELECT zookeeper_path FROM system.replicas {of_table}")
        # Error 305 until its session from before has ended.
        with suppress(ServerException):
            self.lake.on_node(1, f"SYSTEM DROP REPLICA 'node1' FROM ZKPATH '{path}'")
            return True
        return False

    def _is_active(self, number: int) -> bool:
        of_it = f"FROM system.clusters WHERE cluster = '{self.lake.database}' AND is_local"
        return self.lake.on_node(0, f"SELECT is_active {of_it}") == [(number,)]


@pytest.fixture
def stuck(cluster: ClickHouseCluster, lake: Lake) -> Stuck:
    return Stuck(cluster, lake)


@pytest.mark.thorough
def test_a_server_that_is_stuck_at_a_dead_loads_staging_goes_on_with_the_next(
    lake: Lake, stuck: Stuck, strikes: Strikes
) -> None:
    lake.load()
    lake.upload(OTHER)

    def lose() -> None:
        stuck.lose(lake.staging_tables()[0])
        raise Failed

    strikes.after("Create staging", lose)
    with pytest.raises(Failed):
        lake.load()
    strikes.reset()
    assert lake.load()["status"] == "published"
    assert lake.facts() == OTHER.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough(first=1)
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("trips", "is missing on .* which runs no statement of its Replicated database"),
        ("chs3_objects", "is not there as a replicated table that takes rows .* or be stuck at an earlier statement"),
    ],
)
def test_one_that_is_stuck_at_another_table_fails_the_load_until_it_is_mended(
    lake: Lake, stuck: Stuck, table: str, said: str
) -> None:
    lake.load()
    lake.upload(OTHER)
    stuck.lose(table)
    with pytest.raises(TransientError, match=said):
        lake.load()
    stuck.mend()
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{table}")
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert lake.load()["status"] == "published"
    assert lake.facts() == OTHER.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
