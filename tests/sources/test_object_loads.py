"""Loads from every storage of objects end in exactly the objects' rows, whatever happened to them meanwhile."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.plugin.observation.speed.throughput_queries import inserts
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.store_lake import StoreLake
from tests.sources.trips_target import PERIOD
from tests.support.breaking import Breaker, Failed, breaker

__all__ = ["breaker"]

TRIPS = Trips(rows_per_period=3_000, files_per_period=5)
OTHER = Trips(seed=2, rows_per_period=3_500, files_per_period=5)

#: For S3, the tests in `tests/integration` show the same.
beside_s3 = pytest.mark.parametrize(
    "store_lake",
    [pytest.param("s3", marks=pytest.mark.thorough), "azure", pytest.param("gcs", marks=pytest.mark.thorough), "hdfs"],
    indirect=True,
)
#: Names that mean something in a URL, a glob, SQL or JSON.
HOSTILE = (
    "a b",
    "it's",
    "br{a,c}e",
    "p%20c",
    "pl+us",
    "ha#sh",
    "ünï",
    "com,ma",
    "[x]",
    "am&p",
    "s;x",
    "x%y",
    '"q',
    "$x",
)


@beside_s3
@pytest.mark.every_change
def test_a_period_is_loaded_exactly_and_again_only_where_it_changed(store_lake: StoreLake) -> None:
    keys = store_lake.objects.upload(TRIPS, PERIOD)
    store_lake.objects.upload(TRIPS, "2026-02")
    result = store_lake.load()
    assert (result["status"], result["objects"]) == ("published", 5)
    assert store_lake.facts() == TRIPS.facts(PERIOD)
    assert store_lake.load()["status"] == "unchanged"
    # New objects are loaded alone.
    _, more = next(iter(OTHER.files(PERIOD)))
    store_lake.objects.put(f"trips/{PERIOD}/more.parquet", more)
    result = store_lake.load()
    assert (result["objects"], result["loaded_objects"]) == (6, 1)
    assert store_lake.rows() == result["rows"] == TRIPS.rows_per_period + 700
    store_lake.objects.upload(OTHER, PERIOD)
    store_lake.objects.delete(f"trips/{PERIOD}/more.parquet")
    assert store_lake.load()["status"] == "published"
    assert store_lake.facts() == OTHER.facts(PERIOD)
    store_lake.objects.delete(keys[0])
    assert store_lake.load(max_shrink_fraction=0.9)["objects"] == 4
    assert store_lake.rows() < OTHER.rows_per_period


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", ["csv.gz", "jsonl"])
@pytest.mark.three_nodes
@beside_s3
def test_text_is_proven_by_the_bytes_that_servers_received_or_by_a_second_read(
    store_lake: StoreLake, file_format: Any
) -> None:
    store_lake.objects.upload(TRIPS, PERIOD, file_format=file_format)
    assert store_lake.load()["counted_by"] == store_lake.counted_by
    assert store_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@beside_s3
@pytest.mark.every_change
def test_an_object_that_was_cut_off_is_refused(store_lake: StoreLake) -> None:
    lines = b"".join(b"%d,2026-01-05 12:00:00,%r\n" % (number, random.random()) for number in range(500_000))
    whole = lz4.frame.compress(b"trip_id,pickup_at,more\n" + lines, block_size=lz4.frame.BLOCKSIZE_MAX64KB)
    key = f"trips/{PERIOD}/a.csv.lz4"
    # An object of more than one piece.
    assert len(whole) > 9 * 1024**2
    store_lake.objects.put(key, whole[:-100])
    with pytest.raises(AirflowFailException, match=r"a.csv.lz4 was cut off, or is damaged: its LZ4 data has no end"):
        store_lake.load()
    store_lake.objects.put(key, whole)
    assert store_lake.load(columns=["trip_id", "pickup_at"])["rows"] == 500_000


@pytest.mark.thorough
@pytest.mark.three_nodes
@beside_s3
def test_hostile_names_are_loaded_exactly(store_lake: StoreLake) -> None:
    files = Trips(rows_per_period=1_400, files_per_period=len(HOSTILE))
    for name, (_, body) in zip(HOSTILE, files.files(PERIOD), strict=True):
        store_lake.objects.put(f"trips/{PERIOD}/{name}/{name}.parquet", body)
    assert store_lake.load()["objects"] == len(HOSTILE)
    assert store_lake.facts() == files.facts(PERIOD)
    assert store_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
@beside_s3
@pytest.mark.every_change
def test_a_load_that_fails_before_it_publishes_is_made_good_by_the_next(
    store_lake: StoreLake, breaker: Breaker
) -> None:
    store_lake.objects.upload(TRIPS, PERIOD)
    breaker.set(break_after=3)
    with pytest.raises(Failed):
        store_lake.load()
    assert store_lake.rows() == 0
    breaker.set()
    store_lake.load()
    assert store_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_the_waits_for_a_storage_are_known_where_servers_count_them(store_lake: StoreLake) -> None:
    store_lake.objects.upload(TRIPS, PERIOD)
    result = store_lake.load()
    for node in store_lake.cluster.nodes:
        with node.client() as client:
            client.execute("SYSTEM FLUSH LOGS")
    sql = inserts([str(result["attempt"])], begun_at=time.time() - 60, ended_at=time.time())
    waits = sum(row[1] for rows in store_lake.on_every_node(sql.text) for row in rows)
    assert (waits > 0) == (store_lake.counted_by == "insert")


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_deferrable_load_is_proven_by_the_servers_logs(store_lake: StoreLake) -> None:
    store_lake.objects.upload(TRIPS, PERIOD, file_format="csv.gz")
    assert store_lake.load(deferrable=True)["counted_by"] == store_lake.counted_by
    assert store_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.parametrize("store_lake", ["azure"], indirect=True)
class TestAzure:
    def test_a_wrong_key_is_told_and_no_key_shows(
        self, store_lake: StoreLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        store_lake.objects.upload(TRIPS, PERIOD)
        operator = store_lake.operator()
        operator.execute({})
        shown = f"{caplog.text}{operator.insert_sql}{vars(operator)}{operator.store.source(operator.store.listing())!r}"
        wrong = "d3Jvbmcta2V5LW9mLXRoZS1hY2NvdW50LXRoYXQtaXMtbG9uZy1lbm91Z2g="
        store_lake.connect(monkeypatch, password=wrong)
        with pytest.raises(AirflowFailException, match="the key or the SAS token is wrong or") as failed:
            store_lake.load()
        assert "[HIDDEN]" in operator.insert_sql
        for secret in (store_lake.objects.server.account_key, wrong):
            assert secret not in f"{shown}{caplog.text}{failed.value!r}"

    @pytest.mark.every_change
    def test_a_missing_container_is_told(self, store_lake: StoreLake) -> None:
        with pytest.raises(AirflowFailException, match="there is no such container"):
            store_lake.load(container="no-such-container")

    @pytest.mark.thorough
    @pytest.mark.every_change
    def test_an_archived_blob_is_refused_until_it_is_not(self, store_lake: StoreLake) -> None:
        store_lake.objects.upload(TRIPS, PERIOD)
        with store_lake.objects.client() as container:
            blob = container.get_blob_client(next(iter(container.list_blob_names())))
            blob.set_standard_blob_tier("Archive")
            with pytest.raises(AirflowFailException, match=f"Cannot read .*{blob.blob_name} .*: it is archived: set"):
                store_lake.load()
            blob.set_standard_blob_tier("Cool")
        store_lake.load()
        assert store_lake.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_a_named_collection_has_container_and_key(
        self, store_lake: StoreLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The rights of the loads' user are fixed when servers start.
        connection = json.dumps(store_lake.cluster.airflow_connection())
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", connection)
        string, place = store_lake.objects.server.connection_string, store_lake.place
        store_lake.on_every_node(
            f"CREATE NAMED COLLECTION chs3_of_azure AS connection_string = '{string}', container = '{place}'"
        )
        try:
            with pytest.raises(NotReadyError, match="No objects for"):
                store_lake.load(container=None, named_collection="chs3_of_azure")
            store_lake.objects.upload(TRIPS, PERIOD)
            store_lake.load(container=None, named_collection="chs3_of_azure")
            assert store_lake.facts() == TRIPS.facts(PERIOD)
        finally:
            store_lake.on_every_node("DROP NAMED COLLECTION chs3_of_azure")

    @pytest.mark.thorough
    @pytest.mark.parametrize("form", ["connection_string", "sas_token"])
    def test_other_forms_of_the_connection_work(
        self, store_lake: StoreLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, form: str
    ) -> None:
        caplog.set_level(logging.DEBUG)
        store_lake.objects.upload(TRIPS, PERIOD)
        operator = store_lake.operator()
        store_lake.objects.connect_by(form, monkeypatch)
        operator.execute({})
        assert store_lake.facts() == TRIPS.facts(PERIOD)
        access = operator.store.listing().access()
        secret = access.account_key or access.sas_token.partition("sig=")[2].partition("&")[0]
        assert secret not in f"{access}{operator.insert_sql}{caplog.text}"

    @pytest.mark.thorough
    def test_the_example_dag_loads_and_then_finds_nothing_to_load(
        self, store_lake: StoreLake, run_example: Callable[..., None]
    ) -> None:
        for period in ("2026-01", "2026-02"):
            store_lake.objects.upload(TRIPS, period)
        run_example("chs3_azure", store_lake, TRIPS, ["2026-01", "2026-02"], container=store_lake.place)
