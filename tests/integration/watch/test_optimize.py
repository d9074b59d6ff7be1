"""Closed periods are merged on every node, so many at a time, and whoever does it may die at any moment."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.watch.optimize_request import query_id_of
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.slow_merges import address, create, insert, merging, parts, running
from tests.integration.watch.optimizing import JULY, JUNE, operator, optimize
from tests.support.lake import Lake
from tests.support.waiting import wait_until

pytestmark = pytest.mark.three_nodes

#: Not closed, also if the month ends while the tests run.
THIS_PERIOD = str(Period.of_month(*datetime.now(UTC).timetuple()[:2]).shifted(1))


@contextmanager
def in_background(task: OptimizePartitionOperator) -> Iterator[list[Any]]:
    """The task runs meanwhile; what came of it is in the list afterwards."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(task.execute({}))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield outcome
    thread.join(timeout=300)


@pytest.fixture
def table(lake: Lake) -> Lake:
    create(lake)
    return lake


class TestWhatIsMerged:
    def test_closed_periods_on_every_node_or_those_that_are_named(self, table: Lake) -> None:
        for node in range(3):
            for period in (JUNE, JULY):
                insert(table, node, period, parts=3 + node)
        insert(table, 0, THIS_PERIOD)
        # A period is closed so many days after its end.
        days = (datetime.now(UTC) - datetime(2025, 7, 1, tzinfo=UTC)) / timedelta(days=1)
        assert optimize(table, closed_for_days=days + 1)["merged"] == 0
        assert optimize(table, closed_for_days=days - 1)["merged"] == 3
        assert (parts(table, JUNE), parts(table, JULY)) == ([1, 1, 1], [3, 4, 5])
        assert (optimize(table)["merged"], parts(table, JULY)) == (3, [1, 1, 1])
        assert optimize(table) == {"merged": 0, "periods": {}}
        assert parts(table, THIS_PERIOD)[0] == 4
        optimize(table, periods=[THIS_PERIOD])
        assert parts(table, THIS_PERIOD)[0] == 1

    @pytest.mark.thorough
    def test_the_result_tells_parts_bytes_and_seconds(self, table: Lake) -> None:
        insert(table, 1, JUNE, parts=4, seconds=1.6)
        (told,) = optimize(table)["periods"][JUNE].items()
        assert told[0] == address(table.cluster.nodes[1])
        assert {name: told[1][name] for name in ("status", "parts_before", "parts_after")} == {
            "status": "merged",
            "parts_before": 4,
            "parts_after": 1,
        }
        assert told[1]["size_bytes"] > 0
        assert told[1]["seconds"] >= 1

    @pytest.mark.thorough
    def test_only_what_has_more_parts_than_the_target(self, table: Lake) -> None:
        insert(table, 0, JUNE, parts=3)
        insert(table, 0, JULY, parts=4)
        assert list(optimize(table, target_parts=3)["periods"]) == [JULY]

    @pytest.mark.thorough
    def test_a_server_alone(self, table: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        connection = table.cluster.airflow_connection()
        del connection["extra"]["cluster"]
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
        insert(table, 0, JUNE)
        insert(table, 1, JUNE)
        assert list(optimize(table, cluster=None)["periods"][JUNE]) == ["the server"]
        assert parts(table, JUNE) == [1, 4, 0]

    @pytest.mark.thorough
    def test_partitions_whose_id_is_that_of_a_day(self, lake: Lake) -> None:
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.{lake.table} (id UInt64, at DateTime('UTC')) ENGINE = MergeTree "
            "PARTITION BY toStartOfMonth(at) ORDER BY id SETTINGS min_parts_to_merge_at_once = 1000"
        )
        insert(lake, 0, JUNE)
        assert list(optimize(lake)["periods"]) == [JUNE]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree"])
def test_a_load_finds_a_period_that_was_merged_unchanged(lake: Lake, engine: str) -> None:
    lake.create_table(engine=engine)
    lake.upload(Trips(rows_per_period=900, files_per_period=3), JUNE)
    load = {"period": JUNE, "settings": {"min_insert_block_size_rows": 100, "max_insert_threads": 1}}
    lake.load(**load)
    assert max(parts(lake, JUNE)) > 1
    optimize(lake)
    assert max(parts(lake, JUNE)) == 1
    assert lake.load(**load)["status"] == "unchanged"


@pytest.mark.thorough
def test_a_period_that_is_published_meanwhile_is_not_held_up(table: Lake) -> None:
    name, staging = f"{table.database}.{table.table}", f"{table.database}.staging"
    insert(table, 0, JUNE, seconds=120)
    table.on_node(0, f"CREATE TABLE {staging} AS {name}")
    table.on_node(0, f"INSERT INTO {staging} SELECT 7, toDateTime('{JUNE}-05 00:00:00', 'UTC')")
    with in_background(operator(table)) as outcome:
        wait_until(lambda: merging(table)[0])
        started = time.monotonic()
        table.on_node(0, f"ALTER TABLE {name} REPLACE PARTITION ID '202506' FROM {staging}")
        assert time.monotonic() - started < 60
    assert outcome[0]["merged"] == 1
    assert table.on_node(0, f"SELECT id FROM {name}") == [(7,)]


class TestLimits:
    def test_a_period_that_would_make_too_large_a_part_is_left_with_its_reason(self, lake: Lake) -> None:
        create(lake, max_bytes_to_merge_at_max_space_in_pool=1000)
        insert(lake, 0, JUNE)
        (told,) = optimize(lake)["periods"][JUNE].values()
        assert (told["status"], parts(lake, JUNE)[0]) == ("too_large", 4)
        assert "max_bytes_to_merge_at_max_space_in_pool" in told["reason"]

    @pytest.mark.thorough
    def test_so_many_run_at_a_time_in_the_cluster_and_one_on_a_node(self, table: Lake) -> None:
        insert(table, 0, JULY, seconds=2.4)
        for node in range(3):
            insert(table, node, JUNE, seconds=2.4)
        seen = []
        with in_background(operator(table, max_running=2)) as outcome:
            while not outcome:
                seen.append([len(each) for each in running(table)])
                time.sleep(0.1)
        assert max(map(sum, seen)) == 2
        assert max(map(max, seen)) == 1
        assert outcome[0]["merged"] == 4

    @pytest.mark.thorough
    def test_those_of_other_tasks_count(self, table: Lake) -> None:
        insert(table, 0, JUNE, seconds=3)
        insert(table, 1, JULY)
        with in_background(operator(table, max_running=1, periods=[JUNE])):
            wait_until(lambda: running(table)[0])
            optimize(table, max_running=1, periods=[JULY])
            assert parts(table, JUNE)[0] == 1


class TestHindrances:
    def test_merges_that_are_stopped_are_an_error_with_the_way_out(self, table: Lake) -> None:
        insert(table, 0, JUNE)
        insert(table, 1, JUNE)
        table.on_node(0, f"SYSTEM STOP MERGES {table.database}.{table.table}")
        with pytest.raises(AirflowFailException, match=r"236.*SYSTEM START MERGES") as raised:
            optimize(table)
        table.on_node(0, f"SYSTEM START MERGES {table.database}.{table.table}")
        assert str(raised.value).startswith(f"{JUNE} on {address(table.cluster.nodes[0])}, 4 parts")
        assert parts(table, JUNE) == [4, 1, 0]

    def test_a_table_that_is_not_there(self, lake: Lake) -> None:
        with pytest.raises(AirflowFailException, match="does not exist on"):
            optimize(lake)

    def test_numbers_that_make_no_sense(self, table: Lake) -> None:
        for name, wrong in {"target_parts": 0, "max_running": "many", "closed_for_days": -1}.items():
            with pytest.raises(AirflowFailException, match=f"{name}=.*: use a"):
                optimize(table, **{name: wrong})


class TestRunningAgain:
    @pytest.mark.thorough
    def test_it_waits_for_what_an_earlier_process_has_started(self, table: Lake) -> None:
        insert(table, 0, JUNE, seconds=10)
        query_id = query_id_of(TableName(table.database, table.table), "202506")
        with in_background(operator(table)):
            wait_until(lambda: running(table)[0])
            result = optimize(table)
        assert (result["periods"][JUNE][address(table.cluster.nodes[0])]["status"], parts(table, JUNE)[0]) == (
            "merged",
            1,
        )
        sql = f"SELECT countIf(type = 'QueryFinish') FROM system.query_log WHERE query_id = '{query_id}'"
        table.on_node(0, "SYSTEM FLUSH LOGS")
        assert table.on_node(0, sql) == [(1,)]

    @pytest.mark.thorough
    def test_a_merge_goes_on_when_its_client_is_gone(self, table: Lake) -> None:
        insert(table, 0, JUNE, seconds=15)
        with in_background(operator(table)):
            wait_until(lambda: running(table)[0])
            # The client of the start leaves after two seconds.
            time.sleep(2.5)
            assert running(table)[0]
        assert parts(table, JUNE)[0] == 1


class TestKill:
    def test_no_node_runs_an_optimize_and_merges_are_not_left_stopped(self, table: Lake) -> None:
        insert(table, 0, JUNE, seconds=20)
        # It looks again, and begins anew, after two seconds, when a task that was killed would be dead.
        task = operator(table, poll_interval_seconds=2)
        with in_background(task):
            wait_until(lambda: merging(table)[0])
            task.on_kill()
            assert (running(table), parts(table, JUNE)[0]) == ([[], [], []], 4)
            insert(table, 0, JULY)
            table.on_node(0, f"OPTIMIZE TABLE {table.database}.{table.table} PARTITION ID '202507'")
            table.on_every_node(f"DROP TABLE {table.database}.{table.table} SYNC")

    @pytest.mark.thorough
    def test_a_merge_of_another_period_is_not_sacrificed(self, table: Lake) -> None:
        insert(table, 0, JUNE, seconds=10)
        insert(table, 0, JULY, seconds=10)
        other = threading.Thread(
            target=table.on_node,
            args=(0, f"OPTIMIZE TABLE {table.database}.{table.table} PARTITION ID '202507'"),
        )
        task = operator(table, periods=[JUNE])
        with in_background(task):
            other.start()
            wait_until(lambda: sorted(merging(table)[0]) == ["202506", "202507"])
            task.on_kill()
            assert "202507" in merging(table)[0]
        other.join()
        wait_until(lambda: (parts(table, JUNE)[0], parts(table, JULY)[0]) == (1, 1))
