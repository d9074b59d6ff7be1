"""A period goes back to S3: each node writes its rows, the manifest names them, and loads read them again."""

from __future__ import annotations

import json
import os

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import User
from tests.support.lake import Lake
from tests.support.narrow_user import documented
from tests.support.unloading import (
    FOLDER,
    MANIFEST,
    OTHER_TRIPS,
    body,
    ids,
    ids_of_table,
    keys,
    loaded,
    manifest,
    unload,
)

__all__ = ["loaded"]

KINDS = (
    *("Float64", "Float32", "Int8", "UInt64", "UInt128", "Int256", "Bool", "String", "FixedString(4)", "UUID", "IPv4"),
    *("IPv6", "Date", "Date32", "DateTime", "DateTime('Europe/Berlin')", "DateTime64(3)"),
    "DateTime64(9, 'Asia/Tokyo')",
    *("Decimal(9, 2)", "Decimal(76, 10)", "Enum8('x' = 1, 'y''s' = 2)", "Enum16('a' = 300)", "LowCardinality(String)"),
    *("Nullable(UInt8)", "LowCardinality(Nullable(String))", "Array(Nullable(String))", "Map(String, UInt8)", "Point"),
    "Tuple(x UInt8, y Array(Tuple(a String, b Nullable(Date))))",
)


@pytest.mark.three_nodes
def test_each_node_writes_its_rows_once_until_they_change_and_the_manifest_names_them(loaded: Lake) -> None:
    result = unload(loaded)
    files = manifest(loaded)["files"]
    assert (result["status"], result["rows"], result["manifest"]) == ("unloaded", 600, MANIFEST)
    assert result["files"] == [file["key"] for file in files]
    assert sorted(keys(loaded)) == sorted([*result["files"], MANIFEST])
    assert [file["fingerprint"]["rows"] for file in files] == [rows for rows in loaded.rows_per_node() if rows]
    assert [file["size_bytes"] for file in files] == [len(body(loaded, file["key"])) for file in files]
    assert ids(loaded) == ids_of_table(loaded)
    # What is as the manifest says is not written again.
    before = {key: body(loaded, key) for key in keys(loaded)}
    loaded.on_every_node(f"OPTIMIZE TABLE {loaded.database}.{loaded.table} FINAL")
    assert unload(loaded)["status"] == "unchanged"
    assert {key: body(loaded, key) for key in keys(loaded)} == before
    # A changed period replaces the older objects. With few files, a node may have read none.
    loaded.on_every_node(
        f"ALTER TABLE {loaded.database}.{loaded.table} UPDATE fare = fare + 1 WHERE 1 SETTINGS mutations_sync = 1"
    )
    newer = unload(loaded)
    assert newer["status"] == "unloaded"
    assert not set(result["files"]) & set(keys(loaded))
    assert sorted(keys(loaded)) == sorted([*newer["files"], MANIFEST])


@pytest.mark.three_nodes
def test_a_load_makes_the_same_table_of_it(loaded: Lake) -> None:
    folder = {"bucket": None, "key": f"s3://{loaded.bucket}/exports/{{YYYY-MM}}/"}
    unload(loaded, **folder)
    facts = loaded.facts()
    copy = Lake(loaded.cluster, loaded.s3, loaded.bucket, loaded.database, table="copy")
    copy.create_table()
    assert copy.load(**folder)["rows"] == 600
    assert copy.facts() == facts


@pytest.mark.thorough
def test_only_the_period_is_unloaded(loaded: Lake) -> None:
    loaded.upload(OTHER_TRIPS, "2026-11")
    loaded.load(period="2026-11")
    assert unload(loaded)["rows"] == 600
    assert unload(loaded, period="2026-11")["rows"] == 500


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_an_object_that_is_not_as_it_was_is_written_again(loaded: Lake, change: str) -> None:
    first, *_ = unload(loaded)["files"]
    if change == "deleted":
        loaded.s3.delete_object(Bucket=loaded.bucket, Key=first)
    else:
        loaded.put(first, body(loaded, first)[::-1])
    assert unload(loaded)["status"] == "unloaded"
    assert ids(loaded) == ids_of_table(loaded)


@pytest.mark.thorough
def test_a_period_without_rows_has_a_manifest_without_files_and_objects_of_others_stay(loaded: Lake) -> None:
    loaded.put(f"{FOLDER}notes.txt", b"mine")
    loaded.put(f"{FOLDER}2026/1.parquet", b"mine")
    unload(loaded)
    loaded.on_every_node(f"TRUNCATE TABLE {loaded.database}.{loaded.table}")
    assert [unload(loaded)["status"] for _ in range(2)] == ["unloaded", "unchanged"]
    assert manifest(loaded)["files"] == []
    assert keys(loaded) == [f"{FOLDER}2026/1.parquet", MANIFEST, f"{FOLDER}notes.txt"]


@pytest.mark.thorough
def test_the_folder_of_another_table_is_refused(loaded: Lake) -> None:
    unload(loaded)
    before = keys(loaded)
    other = Lake(loaded.cluster, loaded.s3, loaded.bucket, loaded.database, table="other")
    other.create_table()
    with pytest.raises(AirflowFailException, match=r"_manifest.json belongs .*\.trips, 2026-10: set another key for"):
        unload(other)
    assert keys(loaded) == before


@pytest.mark.thorough
def test_what_is_no_folder_no_manifest_and_no_table_is_refused(loaded: Lake) -> None:
    for key in ("exports/{YYYY-MM}", "exports/{YYYY-MM}/*/", "exports/{YYYY-MM}/{DD}/", "a?/{YYYY-MM}/"):
        with pytest.raises(AirflowFailException, match="does not name a period's folder"):
            unload(loaded, key=key)
    with pytest.raises(AirflowFailException, match=r"Table .*\.nothing does not exist on"):
        unload(loaded, table="nothing")
    loaded.put(MANIFEST, b"{}")
    with pytest.raises(AirflowFailException, match="is not a manifest that this version can read"):
        unload(loaded)
    assert keys(loaded) == [MANIFEST]


@pytest.mark.three_nodes
@pytest.mark.newer("UUID in Parquet")
def test_values_of_all_kinds_come_back_as_they_were(loaded: Lake) -> None:
    types = ", ".join(f"c{number} {kind}" for number, kind in enumerate(KINDS))
    columns = ", ".join(f"c{number}" for number in range(len(KINDS)))
    loaded.on_every_node(
        f"CREATE TABLE {loaded.database}.kinds (at DateTime('UTC'), {types}, n Nested(a UInt8, b String), "
        "kept UInt8 MATERIALIZED 7, other UInt8 ALIAS 8) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    random = types.replace("\\", "\\\\").replace("'", "\\'")
    loaded.on_node(
        1,
        f"INSERT INTO {loaded.database}.kinds (at, {columns}, n.a, n.b) SELECT '2026-10-05', *, [1, 2], ['x', ''] "
        f"FROM generateRandom('{random}', 1, 8, 3) LIMIT 100",
    )
    loaded.on_node(1, f"INSERT INTO {loaded.database}.kinds (at, c0) VALUES ('2026-10-06', -0.0), ('2026-10-06', nan)")
    assert unload(loaded, table="kinds")["rows"] == 102
    names = [name for name, _ in manifest(loaded)["columns"]]
    assert names == ["at", *(f"c{number}" for number in range(len(KINDS))), "n.a", "n.b"]


@pytest.mark.thorough
def test_a_column_that_hides_the_partition_is_refused(loaded: Lake) -> None:
    loaded.on_every_node(f"ALTER TABLE {loaded.database}.{loaded.table} ADD COLUMN _partition_id String")
    with pytest.raises(
        AirflowFailException, match=r"has a column '_partition_id'\. It hides ClickHouse's virtual column"
    ):
        unload(loaded)
    assert keys(loaded) == []


@pytest.mark.thorough
def test_suspicious_types_are_unloaded_and_values_that_parquet_changes_are_told(loaded: Lake) -> None:
    for name, column_type in (("few", "LowCardinality(UInt8)"), ("odd", "AggregateFunction(sum, UInt64)")):
        loaded.on_every_node(
            f"CREATE TABLE {loaded.database}.{name} (at DateTime('UTC'), v {column_type}) ENGINE = MergeTree "
            "PARTITION BY toYYYYMM(at) ORDER BY at SETTINGS allow_suspicious_low_cardinality_types = 1"
        )
    loaded.on_node(0, f"INSERT INTO {loaded.database}.odd SELECT '2026-10-05', sumState(toUInt64(7))")
    with pytest.raises(Exception, match=r"AggregateFunction|Parquet"):
        unload(loaded, table="odd")
    assert keys(loaded) == []
    loaded.on_node(0, f"INSERT INTO {loaded.database}.few VALUES ('2026-10-05', 7)")
    assert unload(loaded, table="few")["rows"] == 1


@pytest.mark.three_nodes
def test_the_documented_privileges_suffice(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    user = User("unloader", "secret")
    grants = [*documented("Planning"), *documented("Unloading a period"), "READ ON FILE"]
    with ClickHouseCluster.start(
        1, users={user: [grant.replace("taxi.trips", "default.*") for grant in grants]}
    ) as cluster:
        fields = cluster.airflow_connection() | {"login": user.login, "password": user.password}
        lake = Lake(cluster, loaded.s3, loaded.bucket, "default")
        lake.create_table()
        lake.on_node(0, "INSERT INTO default.trips (trip_id, pickup_at) SELECT number, '2026-10-05' FROM numbers(9)")
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))
        assert unload(lake)["rows"] == 9
        assert ids(lake) == list(range(9))


@pytest.mark.thorough
def test_no_key_of_the_storage_shows(loaded: Lake, caplog: pytest.LogCaptureFixture) -> None:
    result = unload(loaded)
    secret = json.loads(os.environ["AIRFLOW_CONN_AWS_DEFAULT"])["password"]
    loaded.on_every_node("SYSTEM FLUSH LOGS")
    logged = loaded.on_every_node("SELECT query FROM system.query_log WHERE query LIKE '%INTO FUNCTION s3%'")
    assert any(logged)
    assert secret not in f"{caplog.text}{result}{logged}{manifest(loaded)}"
