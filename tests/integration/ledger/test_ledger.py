"""The ledger outlives what happens to it: the loss of a node's, another version of the package, the node itself."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator, ForgetPeriodsOperator, ListLedgerOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet

TRIPS = Trips(rows_per_period=600, files_per_period=3)
OTHER_TRIPS = Trips(seed=2, rows_per_period=500, files_per_period=3)


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    """A lake with a period that is loaded."""
    trips_lake.upload(TRIPS)
    trips_lake.load()
    return trips_lake


def lose_ledger(lake: Lake) -> None:
    """On a node that holds rows: nodes take files as they come, so that one may have none."""
    rows = lake.rows_per_node()
    lake.on_node(rows.index(max(rows)), f"DROP TABLE {lake.database}.chs3_ledger SYNC")


class TestLoss:
    @pytest.mark.three_nodes
    def test_a_node_that_lost_its_ledger_costs_a_reload(self, loaded: Lake) -> None:
        loaded.upload(TRIPS, "2026-11")
        lose_ledger(loaded)
        # Its new ledger does not know the other period.
        loaded.load(period="2026-11")
        assert loaded.load()["reason"] == "a node has lost its records of it"
        assert loaded.facts() == TRIPS.facts(PERIOD)
        assert loaded.load()["status"] == "unchanged"

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_a_node_whose_disks_are_new_gets_its_part_again(self, loaded: Lake) -> None:
        for name in ("chs3_ledger", loaded.table):
            loaded.on_node(1, f"DROP TABLE {loaded.database}.{name} SYNC")
        create = loaded.on_node(0, f"SHOW CREATE TABLE {loaded.database}.{loaded.table}")[0][0]
        loaded.on_node(1, create)
        assert loaded.load()["status"] == "published"
        assert loaded.facts() == TRIPS.facts(PERIOD)

    def test_if_all_ledgers_are_lost_nobody_vouches_for_the_rows(self, loaded: Lake) -> None:
        loaded.on_every_node(f"DROP TABLE {loaded.database}.chs3_ledger SYNC")
        with pytest.raises(AirflowFailException, match="rows that no load wrote"):
            loaded.load()
        assert loaded.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_rows_of_a_table_that_was_made_anew_are_not_the_loads(self, loaded: Lake) -> None:
        name = f"{loaded.database}.{loaded.table}"
        create = loaded.on_node(1, f"SHOW CREATE TABLE {name}")[0][0]
        loaded.on_node(1, f"DROP TABLE {name} SYNC")
        loaded.on_node(1, create)
        loaded.on_node(1, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '{PERIOD}-05 00:00:00')")
        with pytest.raises(AirflowFailException, match="rows that no load wrote"):
            loaded.load()


#: As a version of this package with another schema would make its tables.
OTHER_SCHEMA = "MODIFY COMMENT 'records of airflow-provider-chs3, schema 0'"


def alter_records(lake: Lake, *names: str, numbers: tuple[int, ...] = (0, 1, 2)) -> None:
    for name in names:
        for number in numbers[: len(lake.cluster.nodes)]:
            lake.on_node(number, f"ALTER TABLE {lake.database}.{name} {OTHER_SCHEMA}")


def records(lake: Lake) -> list[list[tuple[Any, ...]]]:
    return lake.on_every_node(f"SELECT * FROM {lake.database}.chs3_ledger ORDER BY ALL")


def refused(lake: Lake, **options: Any) -> str:
    """The error of a load that leaves target and ledger as they are."""
    before = records(lake), lake.facts(), lake.left_behind()
    with pytest.raises(AirflowFailException, match="not created by this version of the package") as raised:
        lake.load(**options)
    assert (records(lake), lake.facts(), lake.left_behind()) == before
    return str(raised.value)


def follow(lake: Lake, error: str) -> None:
    """Do what the error says, to the letter."""
    rename, adopting = re.search(
        r"run (RENAME TABLE .*?) on each of these nodes, and then chs3 (.*) with ", error
    ).groups()
    named = re.search(r" on ([^ ]*(?:, [^ ]*)*): not created", error)[1].split(", ")
    for number, node in enumerate(lake.cluster.nodes):
        if f"{node.host}:{node.tcp_port}" in named:
            lake.on_node(number, rename)
    source = ["--bucket", lake.bucket, "--key", "trips/{YYYY-MM}/", "--cluster", lake.cluster.name]
    assert main([*shlex.split(adopting), *source]) == 0


class TestOtherSchema:
    @pytest.mark.thorough
    def test_the_advice_of_the_error_leads_to_increments(self, loaded: Lake) -> None:
        alter_records(loaded, "chs3_ledger", "chs3_objects")
        alter_records(loaded, "chs3_loads", numbers=(0,))
        follow(loaded, refused(loaded))
        assert loaded.load()["status"] == "unchanged"
        # Adopted rows were only counted, so the first change takes all objects.
        for name, objects in (("a", 4), ("b", 1)):
            loaded.put(f"trips/{PERIOD}/{name}.parquet", parquet(OTHER_TRIPS.table(PERIOD)))
            assert loaded.load()["loaded_objects"] == objects
        assert sum(loaded.rows_per_node()) == TRIPS.rows_per_period + 2 * OTHER_TRIPS.rows_per_period

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_so_it_does_where_one_node_has_another(self, loaded: Lake) -> None:
        alter_records(loaded, "chs3_ledger", numbers=(1,))
        follow(loaded, refused(loaded))
        assert loaded.load()["status"] == "unchanged"

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("name", ["chs3_ledger", "chs3_objects", "chs3_loads"])
    def test_one_of_the_tables_is_enough(self, loaded: Lake, name: str) -> None:
        alter_records(loaded, name, numbers=(0,) if name == "chs3_loads" else (0, 1, 2))
        follow(loaded, refused(loaded))
        assert loaded.load()["status"] == "unchanged"

    @pytest.mark.thorough
    def test_groups_plans_and_commands_are_too(self, loaded: Lake) -> None:
        alter_records(loaded, "chs3_ledger")
        where = {"database": loaded.database, "table": loaded.table, "cluster": loaded.cluster.name}
        source = {"bucket": loaded.bucket, "key": "trips/{YYYY-MM}/"}
        several = [PERIOD, "2026-11"]
        for operator in (
            S3ToClickHouseOperator(task_id="load", periods=several, **source, **where),
            PlanLoadsOperator(task_id="plan", periods=several, **source, **where),
            AdoptPeriodsOperator(task_id="adopt", periods=several, **source, **where),
            ForgetPeriodsOperator(task_id="forget", periods=several, **where),
            ListLedgerOperator(task_id="list", **where),
        ):
            with pytest.raises(AirflowFailException, match="not created by this version of the package"):
                operator.execute({})

    @pytest.mark.thorough
    @pytest.mark.parametrize("deferrable", [False, True])
    @pytest.mark.parametrize("name", ["chs3_ledger", "chs3_objects", "chs3_loads"])
    def test_a_table_of_that_name_of_somebody_else_is_refused_with_a_way_out(
        self, trips_lake: Lake, name: str, deferrable: bool
    ) -> None:
        trips_lake.on_every_node(f"CREATE TABLE {trips_lake.database}.{name} (event String) ORDER BY event")
        trips_lake.upload(TRIPS)
        said = rf"{name} on .*: not created by this version of the package, .* set another database as staging_database"
        with pytest.raises(AirflowFailException, match=said):
            trips_lake.load(deferrable=deferrable)

    @pytest.mark.thorough
    @pytest.mark.parametrize("engine", ["Null", "Memory"])
    def test_so_is_one_that_keeps_no_records(self, loaded: Lake, engine: str) -> None:
        ledger = f"{loaded.database}.chs3_ledger"
        loaded.on_every_node(f"RENAME TABLE {ledger} TO {ledger}_was")
        loaded.on_every_node(f"CREATE TABLE {ledger} AS {ledger}_was ENGINE = {engine}")
        with pytest.raises(AirflowFailException, match=f"engine and comment are {engine} and "):
            loaded.load()
        loaded.on_every_node(f"DROP TABLE {ledger}")
        loaded.on_every_node(f"RENAME TABLE {ledger}_was TO {ledger}")
        assert loaded.load()["status"] == "unchanged"
