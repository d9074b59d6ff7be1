"""Tables of which data files alone tell something else than the table are refused before anything is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sources.lakehouse.listing import split_url
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=2_000)
WRITTEN_OTHERWISE = "was written when the table had other columns"


def _is_to_load(lake: TableLake) -> bool:
    planned: Any = PlanLoadsOperator(task_id="plan", periods=[PERIOD], **lake.where).execute({})
    return planned == [PERIOD]


@pytest.mark.parametrize("table_lake", ["iceberg"], indirect=True)
class TestIceberg:
    @pytest.mark.thorough
    def test_two_columns_that_swapped_their_names_are_refused_in_old_files(self, table_lake: TableLake) -> None:
        table_lake.table.put(TRIPS.table(PERIOD))
        for old, new in (("vendor", "x"), ("zone", "vendor"), ("x", "zone")):
            with table_lake.table.table().update_schema() as change:
                change.rename_column(old, new)
        with pytest.raises(AirflowFailException, match=f"{WRITTEN_OTHERWISE}: 'vendor', 'zone'"):
            table_lake.load()
        assert table_lake.rows() == 0
        table_lake.table.put(TRIPS.table("2026-02"))
        table_lake.load("2026-02")
        assert table_lake.facts("2026-02") == TRIPS.facts("2026-02")

    def test_a_column_that_files_lack_gets_no_default_of_the_target(self, table_lake: TableLake) -> None:
        from pyiceberg.types import StringType

        table_lake.on_every_node(f"ALTER TABLE {table_lake.database}.trips ADD COLUMN tip String DEFAULT 'none'")
        table_lake.table.put(TRIPS.table(PERIOD))
        with table_lake.table.table().update_schema() as change:
            change.add_column("tip", StringType())
        with pytest.raises(AirflowFailException, match="Column 'tip' is missing in"):
            table_lake.load()
        assert table_lake.rows() == 0

    @pytest.mark.thorough
    def test_a_password_of_the_catalog_does_not_show(
        self, table_lake: TableLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        catalog = {"type": "sql", "uri": "postgresql+psycopg://me:hush-hush@127.0.0.1:1/none"}
        monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": catalog}))
        with pytest.raises(Exception, match=r"Cannot list lake\.trips") as failed:
            table_lake.load()
        assert "hush-hush" not in f"{failed.value!r}{failed.value.__cause__!r}{caplog.text}"


@pytest.mark.parametrize("table_lake", ["delta"], indirect=True)
class TestDelta:
    def test_files_with_deletion_vectors_are_refused(self, table_lake: TableLake) -> None:
        table_lake.table.put(TRIPS.table(PERIOD))
        table_lake.table.put(TRIPS.table("2026-02"))
        table_lake.load()
        _delete_by_vector(table_lake)
        assert _is_to_load(table_lake)
        with pytest.raises(AirflowFailException, match="rows that a deletion vector removes"):
            table_lake.load()
        assert table_lake.facts() == TRIPS.facts(PERIOD)
        table_lake.load("2026-02")
        assert table_lake.facts("2026-02") == TRIPS.facts("2026-02")

    def test_column_mapping_is_refused(self, table_lake: TableLake) -> None:
        table_lake.table.put(TRIPS.table(PERIOD))
        _map_columns(table_lake)
        with pytest.raises(AirflowFailException, match="maps its columns to other names"):
            table_lake.load()
        assert table_lake.rows() == 0

    def test_a_partition_column_that_files_lack_gets_no_default_of_the_target(self, table_lake: TableLake) -> None:
        table_lake.on_every_node(f"ALTER TABLE {table_lake.database}.trips ADD COLUMN period String DEFAULT 'none'")
        table_lake.table.put(TRIPS.table(PERIOD))
        with pytest.raises(AirflowFailException, match="Column 'period' is missing in"):
            table_lake.load()
        assert table_lake.rows() == 0

    @pytest.mark.thorough(but=1, first=1)
    @pytest.mark.parametrize("text", ["2026-13", "0000-01"])
    def test_a_partition_that_names_no_period_is_told(self, table_lake: TableLake, text: str) -> None:
        from deltalake import write_deltalake

        rows = TRIPS.table(PERIOD).select(["promo_code"])
        rows = rows.append_column("period", [[text] * len(rows)])
        write_deltalake(
            table_lake.table.uri, rows, partition_by=["period"], storage_options=table_lake.table.storage_options
        )
        with pytest.raises(AirflowFailException, match=f"has a partition '{text}', which names no period"):
            table_lake.load()

    def test_a_table_that_does_not_exist_is_told(self, table_lake: TableLake) -> None:
        with pytest.raises(AirflowFailException, match="There is no Delta table at s3://"):
            table_lake.load()


@pytest.mark.parametrize("url", ["gs://lake/trips", "file:///lake", "lake/trips", "s3://"])
def test_only_tables_in_s3_are_taken(url: str) -> None:
    with pytest.raises(Exception, match="is not in S3"):
        split_url(url)


def _actions(lake: TableLake) -> dict[str, list[Any]]:
    client, bucket = lake.table.s3.client(), lake.table.bucket
    found: dict[str, list[Any]] = {}
    for version in range(lake.table.table().version() + 1):
        body = client.get_object(Bucket=bucket, Key=f"trips/_delta_log/{version:020}.json")["Body"].read()
        for line in body.decode().splitlines():
            for kind, action in json.loads(line).items():
                found.setdefault(kind, []).append(action)
    return found


def _commit(lake: TableLake, *actions: dict[str, Any]) -> None:
    """Commit to the log what other writers than delta-rs may."""
    body = "\n".join(map(json.dumps, actions)).encode()
    key = f"trips/_delta_log/{lake.table.table().version() + 1:020}.json"
    lake.table.s3.client().put_object(Bucket=lake.table.bucket, Key=key, Body=body)


def _delete_by_vector(lake: TableLake) -> None:
    """Delete the first row of January's file."""
    add = next(action for action in _actions(lake)["add"] if PERIOD in action["path"])
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    bitmap = (
        (1681511377).to_bytes(4, "little")
        + (1).to_bytes(8, "little")
        + bytes(4)
        + b"".join(number.to_bytes(size, "little") for number, size in ((12346, 4), (1, 4), (0, 2), (0, 2), (16, 4)))
        + bytes(2)
    )
    size = len(bitmap)
    vector = {"storageType": "i", "pathOrInlineDv": _z85(bitmap + bytes(-size % 4)), "sizeInBytes": size}
    removed = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    _commit(
        lake,
        {"protocol": protocol},
        {"remove": removed},
        {"add": {**add, "deletionVector": {**vector, "cardinality": 1}}},
    )


def _z85(data: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(digits[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))


def _map_columns(lake: TableLake) -> None:
    """Turn on column mapping by name, as an ALTER TABLE of Spark does."""
    metadata = _actions(lake)["metaData"][0]
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], start=1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    last = str(len(schema["fields"]))
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": last}
    changed = {**metadata, "schemaString": json.dumps(schema), "configuration": configuration}
    _commit(lake, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": changed})
