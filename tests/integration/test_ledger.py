"""The ledger outlives what happens to it: the loss of a node's, an older package's, the node itself."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.ledger.table import ALL_COLUMNS
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake

TRIPS = Trips(rows_per_month=600, files_per_month=3)
OTHER_TRIPS = Trips(seed=2, rows_per_month=500, files_per_month=3)


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    """A lake with a month that is loaded."""
    trips_lake.upload(TRIPS)
    trips_lake.load()
    return trips_lake


def lose_ledger(lake: Lake) -> None:
    """On a node that holds rows: nodes take files as they come, so that one may have none."""
    rows = lake.rows_per_node()
    lake.on_node(rows.index(max(rows)), f"DROP TABLE {lake.database}.chs3_ledger SYNC")


def ledger_columns(lake: Lake) -> list[list[str]]:
    sql = f"SELECT name FROM system.columns WHERE database = '{lake.database}' AND table = 'chs3_ledger'"
    return [sorted(name for (name,) in rows) for rows in lake.on_every_node(sql)]


class TestLoss:
    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_a_node_that_lost_its_ledger_costs_a_reload(self, loaded: Lake) -> None:
        lose_ledger(loaded)
        assert loaded.load()["reason"] == "a node has lost its records of it"
        assert loaded.facts() == TRIPS.facts(MONTH)
        assert loaded.load()["status"] == "unchanged"

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_so_does_a_month_that_its_new_ledger_does_not_know(self, loaded: Lake) -> None:
        loaded.upload(TRIPS, "2026-11")
        lose_ledger(loaded)
        loaded.load(month="2026-11")
        assert loaded.load()["reason"] == "a node has lost its records of it"
        assert loaded.facts() == TRIPS.facts(MONTH)

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_two_nodes_may_lose_theirs(self, loaded: Lake) -> None:
        for number in (0, 2):
            loaded.on_node(number, f"DROP TABLE {loaded.database}.chs3_ledger SYNC")
        loaded.upload(OTHER_TRIPS)
        assert loaded.load()["status"] == "published"
        assert loaded.facts() == OTHER_TRIPS.facts(MONTH)

    @pytest.mark.three_nodes
    def test_a_node_whose_disks_are_new_gets_its_part_again(self, loaded: Lake) -> None:
        for name in ("chs3_ledger", loaded.table):
            loaded.on_node(1, f"DROP TABLE {loaded.database}.{name} SYNC")
        create = loaded.on_node(0, f"SHOW CREATE TABLE {loaded.database}.{loaded.table}")[0][0]
        loaded.on_node(1, create)
        assert loaded.load()["status"] == "published"
        assert loaded.facts() == TRIPS.facts(MONTH)

    def test_if_all_ledgers_are_lost_nobody_vouches_for_the_rows(self, loaded: Lake) -> None:
        loaded.on_every_node(f"DROP TABLE {loaded.database}.chs3_ledger SYNC")
        with pytest.raises(AirflowFailException, match="rows that no load wrote"):
            loaded.load()
        assert loaded.facts() == TRIPS.facts(MONTH)

    @pytest.mark.three_nodes
    def test_rows_of_a_table_that_was_made_anew_are_not_the_loads(self, loaded: Lake) -> None:
        name = f"{loaded.database}.{loaded.table}"
        create = loaded.on_node(1, f"SHOW CREATE TABLE {name}")[0][0]
        loaded.on_node(1, f"DROP TABLE {name} SYNC")
        loaded.on_node(1, create)
        loaded.on_node(1, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '{MONTH}-05 00:00:00')")
        with pytest.raises(AirflowFailException, match="rows that no load wrote"):
            loaded.load()

    @pytest.mark.parametrize("deferrable", [False, True])
    def test_a_table_of_the_ledgers_name_that_is_none_is_refused_with_a_way_out(
        self, trips_lake: Lake, deferrable: bool
    ) -> None:
        trips_lake.on_every_node(f"CREATE TABLE {trips_lake.database}.chs3_ledger (event String) ORDER BY event")
        trips_lake.upload(TRIPS)
        with pytest.raises(AirflowFailException, match=r"is not a ledger of this package, .* staging_database"):
            trips_lake.load(deferrable=deferrable)

    def test_so_is_one_of_the_name_of_the_table_of_objects(self, trips_lake: Lake) -> None:
        trips_lake.on_every_node(f"CREATE TABLE {trips_lake.database}.chs3_objects (path String) ORDER BY path")
        trips_lake.upload(TRIPS)
        told = r"chs3_objects on .* is not this package's table of objects, as it has no column loaded_at, .* rename it"
        with pytest.raises(AirflowFailException, match=told):
            trips_lake.load()


#: Of the ledger's first version.
FIRST_COLUMNS = [
    name for name in ALL_COLUMNS if name not in ("nodes", "data_version", "evidence", "structure", "summary")
]


class TestUpgrade:
    @pytest.fixture
    def older(self, loaded: Lake) -> Lake:
        """The ledgers are as the last version made them."""
        loaded.on_every_node(f"ALTER TABLE {loaded.database}.chs3_ledger DROP COLUMN data_version")
        return loaded

    def test_what_an_older_version_published_is_unchanged(self, older: Lake) -> None:
        assert older.load()["status"] == "unchanged"

    @pytest.mark.three_nodes
    def test_a_load_that_writes_adds_the_columns_that_lack(self, older: Lake) -> None:
        older.upload(OTHER_TRIPS)
        assert older.load()["reason"] == "its objects changed since it was published"
        assert older.facts() == OTHER_TRIPS.facts(MONTH)
        assert ledger_columns(older) == [sorted(ALL_COLUMNS)] * 3

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_one_node_may_have_it_already(self, older: Lake) -> None:
        older.on_node(1, f"ALTER TABLE {older.database}.chs3_ledger ADD COLUMN data_version Int64")
        older.upload(OTHER_TRIPS)
        assert older.load()["status"] == "published"
        assert ledger_columns(older) == [sorted(ALL_COLUMNS)] * 3

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_a_record_that_tells_too_little_costs_a_reload(self, older: Lake) -> None:
        older.on_every_node(f"ALTER TABLE {older.database}.chs3_ledger DROP COLUMN nodes")
        for name in ("evidence", "structure", "summary"):
            older.on_every_node(f"ALTER TABLE {older.database}.chs3_ledger DROP COLUMN {name}")
        assert ledger_columns(older) == [sorted(FIRST_COLUMNS)] * 3
        assert older.load()["status"] == "published"
        assert older.facts() == TRIPS.facts(MONTH)
        assert older.load()["status"] == "unchanged"

    @pytest.mark.thorough
    def test_columns_of_a_newer_version_are_left_alone(self, loaded: Lake) -> None:
        loaded.on_every_node(f"ALTER TABLE {loaded.database}.chs3_ledger ADD COLUMN newer String")
        loaded.upload(OTHER_TRIPS)
        assert loaded.load()["status"] == "published"
        assert loaded.load()["status"] == "unchanged"
