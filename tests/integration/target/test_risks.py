"""Warnings about a target, and refusals, before a load writes anything."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.refusal import refused

TRIPS = Trips(rows_per_period=900, files_per_period=3)
OTHER = Trips(seed=2, rows_per_period=900, files_per_period=3)


def test_materialized_views_that_will_not_see_the_period_and_a_ttl_are_told(
    trips_lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    database = trips_lake.database
    trips_lake.on_every_node(
        f"CREATE MATERIALIZED VIEW {database}.by_zone ENGINE = SummingMergeTree ORDER BY zone "
        f"AS SELECT zone, count() AS trips FROM {database}.trips GROUP BY zone"
    )
    trips_lake.on_every_node(f"ALTER TABLE {database}.trips MODIFY TTL pickup_at + INTERVAL 50 YEAR")
    trips_lake.upload(TRIPS)
    trips_lake.load()
    shown = capfd.readouterr().out
    assert f"{database}.by_zone will not see the rows of {PERIOD} in {database}.trips" in shown
    assert "expire by its TTL" in shown
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_an_ordinary_target_whose_ttl_only_recompresses_is_no_word_worth(
    trips_lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    ttl = "pickup_at + INTERVAL 50 YEAR RECOMPRESS CODEC(ZSTD(3))"
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips MODIFY TTL {ttl}")
    trips_lake.upload(TRIPS)
    trips_lake.load()
    shown = capfd.readouterr().out
    assert not any(word in shown for word in ("materialized", "TTL", "local disk"))


class TestParts:
    """Each node holds a period of 3 parts, which are not merged."""

    NOVEMBER = "2026-11"

    @staticmethod
    def crowd(lake: Lake, settings: str, period: str = NOVEMBER) -> None:
        lake.on_every_node(f"{create_table_sql(f'{lake.database}.trips')} SETTINGS {settings}")
        lake.on_every_node(f"SYSTEM STOP MERGES {lake.database}.trips")
        for trip_id in range(3):
            lake.on_every_node(
                f"INSERT INTO {lake.database}.trips (trip_id, pickup_at) SELECT {trip_id}, '{period}-02 00:00:00'"
            )
        lake.upload(TRIPS)

    def test_a_full_partition_stops_the_load_with_a_word_on_every_node_until_merges_have_caught_up(
        self, lake: Lake
    ) -> None:
        self.crowd(lake, "parts_to_throw_insert = 3")
        with pytest.raises(TransientError) as stopped:
            lake.load()
        findings = str(stopped.value).splitlines()
        assert len(findings) == len(lake.cluster.nodes)
        assert all("3 parts in one partition (parts_to_throw_insert=3)" in finding for finding in findings)
        assert lake.rows_per_node() == [3] * len(lake.cluster.nodes)
        lake.on_every_node(f"SYSTEM START MERGES {lake.database}.trips")
        lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.trips FINAL")
        lake.load()
        assert lake.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_a_table_that_has_all_the_parts_it_may_have_stops_the_load(self, lake: Lake) -> None:
        self.crowd(lake, "max_parts_in_total = 4")
        with pytest.raises(TransientError, match=r"3 parts \(max_parts_in_total=4\)"):
            lake.load()

    @pytest.mark.thorough
    def test_the_parts_that_the_load_replaces_do_not_count(self, lake: Lake) -> None:
        self.crowd(lake, "parts_to_throw_insert = 3, max_parts_in_total = 3", PERIOD)
        lake.load(replace_unknown=True)
        assert lake.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_slow_inserts_are_told(self, lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
        self.crowd(lake, "parts_to_delay_insert = 3, parts_to_throw_insert = 100, max_delay_to_insert = 1")
        lake.load()
        assert "slows down INSERTs" in capfd.readouterr().out
        assert lake.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    @pytest.mark.parametrize("settings", ["parts_to_throw_insert = 3", "max_parts_in_total = 3"])
    def test_the_server_itself_refuses_an_insert_then_and_takes_a_partition(self, lake: Lake, settings: str) -> None:
        """Why the load looks: REPLACE PARTITION would go on filling a table that refuses all else."""
        self.crowd(lake, settings)
        trips, other = f"{lake.database}.trips", f"{lake.database}.other"
        with pytest.raises(ServerException, match="Too many parts"):
            lake.on_node(0, f"INSERT INTO {trips} (trip_id, pickup_at) SELECT 1, '{PERIOD}-02 00:00:00'")
        lake.on_node(0, create_table_sql(other))
        lake.on_node(0, f"INSERT INTO {other} (trip_id, pickup_at) SELECT 1, '{PERIOD}-02 00:00:00'")
        lake.on_node(0, f"ALTER TABLE {trips} REPLACE PARTITION ID '202610' FROM {other}")
        assert lake.on_node(0, f"SELECT count() FROM {trips}") == [(4,)]


@pytest.mark.thorough
def test_the_records_of_loads_take_more_parts_than_the_server_allows_in_others(
    chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"merge_tree": {"parts_to_delay_insert": 2, "parts_to_throw_insert": 3}}
    with (
        ClickHouseCluster.start(1, server_settings=few, **WITH_NARROW_USER) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        lake.on_node(0, create_table_sql(f"{lake.database}.{lake.table}"))
        for trips in (TRIPS, OTHER, TRIPS):
            lake.upload(trips)
            lake.load()
            assert lake.facts() == trips.facts(PERIOD)


class TestDisks:
    """Tables on disks other than the usual one."""

    @pytest.fixture
    def on_disks(self, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
        keys = {"access_key_id": chs3_s3.access_key, "secret_access_key": chs3_s3.secret_key}
        remote = {"type": "s3", "endpoint": f"{chs3_s3.endpoint_url}/{chs3_bucket}/disk/", **keys}
        with tempfile.TemporaryDirectory() as folder:
            full = {"type": "local", "path": f"{folder}/", "keep_free_space_bytes": 10**17}
            policies = {name: {"volumes": {"main": {"disk": name}}} for name in ("full", "remote")}
            storage = {"disks": {"full": full, "remote": remote}, "policies": policies}
            settings = {"storage_configuration": storage}
            with (
                ClickHouseCluster.start(1, server_settings=settings, **WITH_NARROW_USER) as cluster,
                lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
            ):
                lake.upload(TRIPS)
                yield lake

    @staticmethod
    def create_table(lake: Lake, policy: str) -> None:
        lake.on_node(0, f"{create_table_sql(f'{lake.database}.{lake.table}')} SETTINGS storage_policy = '{policy}'")

    def test_a_full_one_stops_the_load(self, on_disks: Lake) -> None:
        self.create_table(on_disks, "full")
        version = f"{on_disks.database}.chs3_version_0123456789abcdef"
        on_disks.on_node(0, f"CREATE TABLE {version} ENGINE = MergeTree ORDER BY () AS SELECT 1 AS one")
        says = ".* has only 0 bytes free on full, and its part of 2026-10 takes about .*: free some space there"
        refused(
            on_disks, rf"(?s){says}.* held rows take up to [\d.]+ \w+ on .*: drop the tables of the oldest versions"
        )

    @pytest.mark.thorough
    def test_one_in_s3_is_told_and_loaded(self, on_disks: Lake, capfd: pytest.CaptureFixture[str]) -> None:
        self.create_table(on_disks, "remote")
        on_disks.load()
        assert f"{on_disks.database}.trips is stored on remote, which is not a local disk" in capfd.readouterr().out
        assert on_disks.facts() == TRIPS.facts(PERIOD)
