"""List, adopt, forget and clean, against real ledgers."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.periods import adopt as adopting
from airflow_provider_chs3.core.sql.quoting import table
from airflow_provider_chs3.operators.ledger import CleanStagingOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake
from tests.support.ledger_tasks import adopt, forget, ledger, where
from tests.support.narrow_user import user_of_loads

TRIPS = Trips(rows_per_period=600, files_per_period=3)
OTHER_TRIPS = Trips(seed=2, rows_per_period=500, files_per_period=3)
ORPHAN = "chs3_0123456789abcdef_0123456789abcdef"


def advised(lake: Lake, why: str) -> dict[str, Any]:
    """Return the policies that a refusal advises, without which a load fails and with which it publishes."""
    with pytest.raises(AirflowFailException, match=rf"{why}\(.*\); load it( with policies={{.*}})?$") as refused:
        adopt(lake)
    policies: dict[str, Any] = ast.literal_eval(str(refused.value).partition("policies=")[2] or "{}")
    for number in range(len(policies)):
        with pytest.raises(AirflowFailException, match="since"):
            lake.load(**dict([*policies.items()][:number]))
    assert lake.load(**policies)["status"] == "published"
    return policies


def clean(lake: Lake, **options: Any) -> list[str]:
    arguments = {"task_id": "clean", "older_than_seconds": 0, **where(lake)}
    return [each["name"] for each in CleanStagingOperator(**(arguments | options)).execute({})]


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    """A lake with a period that is loaded."""
    trips_lake.upload(TRIPS)
    trips_lake.load()
    return trips_lake


@pytest.fixture
def foreign(trips_lake: Lake) -> Lake:
    """A lake whose period's rows are there, put by other means: a plain insert that no ledger knows."""
    trips_lake.upload(TRIPS)
    trips_lake.insert_objects()
    return trips_lake


class TestAdopt:
    def test_a_period_that_was_adopted_is_unchanged_until_its_objects_change(self, foreign: Lake) -> None:
        (partition,) = ledger(foreign)
        assert (partition["period"], partition["partition_id"], partition["rows"]) == (None, "202610", 600)
        (adopted,) = adopt(foreign, periods=None, all_periods=True)
        assert (adopted["period"], adopted["status"], adopted["rows"]) == (PERIOD, "adopted", 600)
        assert ledger(foreign)[0]["was_adopted"]
        assert foreign.load()["status"] == "unchanged"
        assert foreign.facts() == TRIPS.facts(PERIOD)
        assert adopt(foreign)[0]["status"] == "unchanged"
        foreign.upload(OTHER_TRIPS)
        assert foreign.load()["reason"] == "its objects changed since it was published"
        assert foreign.facts() == OTHER_TRIPS.facts(PERIOD)

    @pytest.mark.three_nodes
    def test_a_row_too_few_is_refused_with_the_counts(self, foreign: Lake) -> None:
        name = f"{foreign.database}.{foreign.table}"
        rows = foreign.rows_per_node()
        fullest = rows.index(max(rows))
        foreign.on_node(
            fullest, f"DELETE FROM {name} WHERE trip_id = (SELECT min(trip_id) FROM {name}) SETTINGS mutations_sync = 2"
        )
        with pytest.raises(AirflowFailException, match=r"hold 600 rows, .* holds 599 \(.*: \d+, .*\)"):
            adopt(foreign)
        assert ledger(foreign)[0]["state"] == "the partition holds rows that no load wrote"

    @pytest.mark.thorough
    def test_a_period_of_which_the_user_does_not_see_all_rows_is_refused(
        self, foreign: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As a row policy does, for which the servers of tests have no storage.
        monkeypatch.setattr(adopting, "table", lambda name: f"{table(name)} PREWHERE trip_id % 2")
        with pytest.raises(AirflowFailException, match="without row policies"):
            adopt(foreign)

    @pytest.mark.thorough
    def test_a_period_without_rows_is_refused_and_may_be_loaded_as_it_is(self, trips_lake: Lake) -> None:
        trips_lake.upload(TRIPS)
        with pytest.raises(AirflowFailException, match=r"hold 600 rows, .* holds 0 \(.*\); load it$"):
            adopt(trips_lake)
        assert trips_lake.load()["status"] == "published"
        assert trips_lake.facts() == TRIPS.facts(PERIOD)

    def test_the_way_out_of_a_refusal_is_what_a_load_takes(self, loaded: Lake) -> None:
        """Objects that only changed take a plain load; dropped rows, and objects that shrank, take policies."""
        loaded.upload(OTHER_TRIPS)
        assert advised(loaded, "hold 500 rows, .* holds 600 ") == {}
        loaded.upload(Trips(rows_per_period=20, files_per_period=3))
        loaded.on_every_node(f"ALTER TABLE {loaded.database}.{loaded.table} DROP PARTITION 202610")
        allowed = {"on_target_changed": "reload", "max_shrink_fraction": 1}
        assert advised(loaded, "hold 20 rows, .* holds 0 ") == allowed

    @pytest.mark.thorough
    def test_a_partition_that_was_mutated_before_is_adopted_as_it_is(self, foreign: Lake) -> None:
        name = f"{foreign.database}.{foreign.table}"
        foreign.on_every_node(f"ALTER TABLE {name} UPDATE fare = 0 WHERE 1 SETTINGS mutations_sync = 2")
        assert adopt(foreign)[0]["status"] == "adopted"
        assert foreign.load()["status"] == "unchanged"

    @pytest.mark.thorough
    def test_one_that_is_refused_does_not_hold_back_the_others(self, foreign: Lake) -> None:
        with pytest.raises(AirflowFailException, match="2026-09 refused: No objects for 2026-09"):
            adopt(foreign, periods="2026-09,2026-10")
        assert foreign.load()["status"] == "unchanged"

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("policy", ["skip", "empty"])
    def test_one_that_may_be_without_objects_is_unchanged_without_rows_and_refused_with_them(
        self, foreign: Lake, policy: str
    ) -> None:
        definition = {"policies": {"on_no_objects": policy}}
        (without_rows,) = adopt(foreign, periods="2026-09", definition=definition)
        assert (without_rows["status"], without_rows["rows"]) == ("unchanged", 0)
        for key in foreign.upload(TRIPS):
            foreign.s3.delete_object(Bucket=foreign.bucket, Key=key)
        with pytest.raises(AirflowFailException, match=r"2026-10 refused: no objects$"):
            adopt(foreign, definition=definition)

    @pytest.mark.thorough
    def test_text_is_counted_by_reading_it(self, trips_lake: Lake) -> None:
        trips_lake.upload(TRIPS, file_format="csv.gz")
        trips_lake.insert_objects()
        assert adopt(trips_lake)[0]["rows"] == 600

    @pytest.mark.thorough
    def test_a_load_that_is_told_otherwise_finds_the_definition_changed(self, foreign: Lake) -> None:
        definition = {"null_as_default": True}
        adopt(foreign, definition=definition)
        assert foreign.load(**definition)["status"] == "unchanged"
        assert foreign.load()["reason"] == "its definition changed since it was published"


class TestForget:
    def test_the_rows_stay_and_are_no_loads_until_they_are_replaced_or_adopted(self, loaded: Lake) -> None:
        assert forget(loaded, PERIOD) == [{"period": PERIOD, "was_known": True, "rows": 600}]
        assert [each["was_known"] for each in forget(loaded, "2026-01", PERIOD)] == [False, False]
        with pytest.raises(AirflowFailException, match=r"policies={'replace_unknown': True}"):
            loaded.load()
        assert loaded.facts() == TRIPS.facts(PERIOD)
        assert adopt(loaded)[0]["status"] == "adopted"
        assert loaded.load()["status"] == "unchanged"
        forget(loaded, PERIOD)
        assert loaded.load(replace_unknown=True)["status"] == "published"
        assert loaded.facts() == TRIPS.facts(PERIOD)
        assert loaded.load()["status"] == "unchanged"

    @pytest.mark.thorough
    def test_one_whose_rows_are_gone_is_new(self, loaded: Lake) -> None:
        loaded.on_every_node(f"ALTER TABLE {loaded.database}.{loaded.table} DROP PARTITION 202610")
        forget(loaded, PERIOD)
        assert loaded.load()["reason"] == "never loaded"
        assert loaded.facts() == TRIPS.facts(PERIOD)


class TestList:
    @pytest.mark.thorough
    def test_a_period_as_published(self, loaded: Lake) -> None:
        (period,) = ledger(loaded)
        assert json.loads(json.dumps([period])) == [period]
        assert (period["period"], period["state"], period["is_as_published"]) == (PERIOD, "as published", True)
        assert (period["rows"], period["objects"], period["was_adopted"]) == (600, 3, False)
        assert period["rows_per_second"] > 0
        assert sum(node["rows"] for node in period["nodes"].values()) == 600
        assert ledger(loaded, periods="2026-09") == []
        # Adopting mends the loss of all ledgers.
        loaded.on_every_node(f"DROP TABLE {loaded.database}.chs3_ledger SYNC")
        assert adopt(loaded)[0]["status"] == "adopted"
        assert loaded.load()["status"] == "unchanged"

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_a_node_that_lost_its_ledger_is_named(self, loaded: Lake) -> None:
        rows = loaded.rows_per_node()
        node = loaded.cluster.nodes[rows.index(max(rows))]
        loaded.on_node(rows.index(max(rows)), f"DROP TABLE {loaded.database}.chs3_ledger SYNC")
        (period,) = ledger(loaded)
        assert period["state"].startswith("a node has lost its records of it")
        assert str(node.tcp_port) in period["state"]
        assert period["rows"] == 600

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("table", ["it's", "a`b", "x; DROP TABLE y --", 'q"\\'])
    def test_names_cannot_change_a_statement(self, lake: Lake, table: str) -> None:
        lake.upload(TRIPS)
        lake.table = table
        quoted = "`" + table.replace("\\", "\\\\").replace("`", "\\`") + "`"
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.{quoted} (trip_id UInt64, pickup_at DateTime('UTC')) "
            "ENGINE = MergeTree PARTITION BY toYYYYMM(pickup_at) ORDER BY pickup_at"
        )
        lake.insert_objects()
        assert adopt(lake)[0]["status"] == "adopted"
        assert ledger(lake)[0]["is_as_published"]
        assert forget(lake, PERIOD)[0]["was_known"]


class TestClean:
    @pytest.fixture
    def left(self, trips_lake: Lake) -> Iterator[Lake]:
        """Staging that a dead attempt left on two nodes, and tables that are none."""
        for number in (0, 2):
            trips_lake.on_node(
                number, f"CREATE TABLE {trips_lake.database}.{ORPHAN} (a Int8) ENGINE = MergeTree ORDER BY a"
            )
        trips_lake.on_node(1, f"CREATE TABLE {trips_lake.database}.chs3_report (a Int8) ENGINE = MergeTree ORDER BY a")
        yield trips_lake
        for name in (ORPHAN, "chs3_report"):
            trips_lake.on_every_node(f"DROP TABLE IF EXISTS {trips_lake.database}.{name} SYNC")

    @pytest.mark.three_nodes
    def test_old_staging_goes_and_nothing_else(self, left: Lake) -> None:
        left.upload(TRIPS)
        left.load()
        assert clean(left, older_than_seconds=3600) == []
        assert clean(left, dry_run_only=True) == [ORPHAN]
        assert left.left_behind().count(ORPHAN) == 2
        assert clean(left) == [ORPHAN]
        assert left.left_behind() == ["chs3_report"]
        assert left.load()["status"] == "unchanged"

    @pytest.mark.thorough
    def test_staging_whose_age_nobody_knows_is_not_taken_for_old(
        self, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As a user with all privileges: the others may do nothing in that database.
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(trips_lake.cluster.airflow_connection()))
        # The database `default` of the test bed's engine keeps no metadata on disk, and tells no time.
        trips_lake.on_node(0, f"CREATE TABLE default.{ORPHAN} (a Int8) ENGINE = MergeTree ORDER BY a")
        assert clean(trips_lake, database="default", older_than_seconds=3600) == []
        assert clean(trips_lake, database="default") == [ORPHAN]

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_a_query_of_it_ends_first(self, left: Lake) -> None:
        def late_query() -> None:
            # As the loads' user, who may end their own queries alone.
            node = replace(left.cluster.nodes[0], credentials=user_of_loads(left.cluster))
            with node.client() as client:
                client.execute(
                    f"INSERT INTO {left.database}.{ORPHAN} SELECT sleepEachRow(1) FROM numbers(100) "
                    "SETTINGS max_block_size = 1",
                    query_id=f"{ORPHAN}_insert1",
                )

        with ThreadPoolExecutor(max_workers=1) as pool:
            query = pool.submit(late_query)
            running = f"SELECT count() FROM system.processes WHERE query_id = '{ORPHAN}_insert1'"
            while not left.on_node(0, running)[0][0]:
                assert not query.done()
            assert clean(left) == [ORPHAN]
            assert left.on_node(0, running) == [(0,)]
            assert "QUERY_WAS_CANCELLED" in str(query.exception()) or "Code: 394" in str(query.exception())

    @pytest.mark.thorough
    def test_a_database_that_is_not_there_is_told(self, trips_lake: Lake) -> None:
        with pytest.raises(AirflowFailException, match="Database 'nowhere' does not exist on"):
            clean(trips_lake, database="nowhere")
