"""Rows that Iceberg's delete files remove are left out of a load: what is loaded is what pyiceberg itself reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sources.lakehouse import reading
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.lakehouses import known_types
from tests.sources.row_deltas import commit_deletes, data_files, delete_by_position, delete_by_value
from tests.sources.slow_source import SLOW
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD
from tests.support import deferring

TRIPS = Trips(rows_per_period=2_000)
NEXT = "2026-02"
OF_PERIOD = "pickup_at >= '2026-01-01T00:00:00+00:00' and pickup_at < '2026-02-01T00:00:00+00:00'"

pytestmark = pytest.mark.parametrize("table_lake", ["iceberg"], indirect=True)


@pytest.fixture
def lake(table_lake: TableLake) -> TableLake:
    """An Iceberg table whose January has two files of several row groups, and whose February has one."""
    rows = TRIPS.table(PERIOD)
    table_lake.table.put(rows.slice(0, 1_200))
    with table_lake.table.table().transaction() as change:
        change.set_properties({"write.parquet.row-group-limit": "300"})
    table_lake.table.overwrite(rows.slice(0, 1_200), PERIOD)
    table_lake.table.put(rows.slice(1_200))
    table_lake.table.put(TRIPS.table(NEXT))
    return table_lake


def january(lake: TableLake) -> list[str]:
    """The URLs of January's files, the larger one first."""
    files = data_files(lake.table.table(), OF_PERIOD)
    return [file.file_path for file in sorted(files, key=lambda each: -each.record_count)]


def in_table(lake: TableLake, columns: Mapping[str, str] = COLUMNS) -> list[tuple[Any, ...]]:
    """All values of January in ClickHouse."""
    found = lake.on_every_node(
        f"SELECT {', '.join(columns)} FROM {lake.database}.trips WHERE toYYYYMM(pickup_at) = 202601"
    )
    return in_order(row for rows in found for row in rows)


def in_lakehouse(lake: TableLake, columns: Mapping[str, str] = COLUMNS) -> list[tuple[Any, ...]]:
    """All values of January as pyiceberg reads them."""
    rows: pa.Table = lake.table.table().scan(OF_PERIOD).to_arrow()
    return in_order(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in the order of their values; times as seconds, as each library has its own class of UTC."""
    plain = (tuple(each.timestamp() if isinstance(each, datetime) else each for each in row) for row in rows)
    return sorted(plain, key=str)


def is_to_load(lake: TableLake, period: str) -> bool:
    planned: Any = PlanLoadsOperator(task_id="plan", periods=[period], **lake.where).execute({})
    return planned == [period]


@pytest.mark.three_nodes
def test_deleted_rows_are_left_out_wherever_they_are(lake: TableLake) -> None:
    large, small = january(lake)
    # The first and the last row of files and of row groups, some twice, and by several delete files.
    delete_by_position(lake.table.table(), {large: [0, 299, 300, 301, 1_199], small: [7]}, has_bounds=False)
    delete_by_position(lake.table.table(), {small: [0, 7, 799, 300]})
    result = lake.load()
    assert (result["rows"], result["counted_by"]) == (2_000 - 5 - 4, "footers")
    assert in_table(lake) == in_lakehouse(lake)
    lake.load(NEXT)
    assert lake.facts(NEXT) == TRIPS.facts(NEXT)


@pytest.mark.thorough
def test_bounds_that_contradict_each_other_hide_no_deletes(lake: TableLake) -> None:
    large, _ = january(lake)
    delete_by_position(lake.table.table(), {large: [0]}, bounds=("z", "a"))
    assert lake.load()["rows"] == 1_999
    assert TRIPS.table(PERIOD)["trip_id"][0].as_py() not in [row[0] for row in in_table(lake)]


@pytest.mark.thorough
def test_only_periods_of_which_rows_were_deleted_are_loaded_again(lake: TableLake) -> None:
    for period in (PERIOD, NEXT):
        lake.load(period)
    large, _ = january(lake)
    delete_by_position(lake.table.table(), {large: list(range(0, 1_200, 3))})
    assert [is_to_load(lake, period) for period in (PERIOD, NEXT)] == [True, False]
    assert lake.load()["rows"] == 1_600
    assert in_table(lake) == in_lakehouse(lake)
    assert not is_to_load(lake, PERIOD)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_file_that_was_added_after_a_delete_is_loaded_alone(lake: TableLake) -> None:
    large, _ = january(lake)
    delete_by_position(lake.table.table(), {large: [1, 2, 3]}, has_bounds=False)
    lake.load()
    lake.table.put(Trips(seed=2, rows_per_period=500).table(PERIOD))
    result = lake.load()
    assert (result["objects"], result["loaded_objects"], result["rows"]) == (3, 1, 2_497)
    assert in_table(lake) == in_lakehouse(lake)


@pytest.mark.thorough
def test_a_period_whose_rows_are_all_deleted_is_empty(lake: TableLake) -> None:
    lake.load()
    large, small = january(lake)
    delete_by_position(lake.table.table(), {large: range(1_200), small: range(800)}, has_bounds=False)
    assert lake.load(max_shrink_fraction=1)["rows"] == 0
    assert in_table(lake) == in_lakehouse(lake) == []


@pytest.mark.thorough
def test_a_deleted_row_may_have_what_does_not_fit(lake: TableLake) -> None:
    wrong = Trips(seed=3, rows_per_period=10).table(PERIOD)
    place = wrong.schema.get_field_index("passenger_count")
    counts = pa.array([300, *[1] * 9], pa.int32())
    lake.table.table().append(known_types(wrong).set_column(place, pa.field("passenger_count", pa.int32()), [counts]))
    with pytest.raises(AirflowFailException, match="Column 'passenger_count' is UInt8"):
        lake.load()
    added = min(data_files(lake.table.table(), OF_PERIOD), key=lambda each: each.record_count)
    delete_by_position(lake.table.table(), {added.file_path: [0]})
    assert lake.load()["rows"] == 2_009
    assert in_table(lake) == in_lakehouse(lake)


@pytest.mark.thorough
def test_periods_that_are_loaded_together_leave_out_what_is_deleted_of_each(lake: TableLake) -> None:
    large, _ = january(lake)
    (february,) = data_files(lake.table.table(), "pickup_at >= '2026-02-01T00:00:00+00:00'")
    delete_by_position(lake.table.table(), {large: [5]})
    delete_by_position(lake.table.table(), {february.file_path: [5, 6]})
    results = S3ToClickHouseOperator(task_id="load", periods=[PERIOD, NEXT], **lake.where).execute({})
    assert [result["rows"] for result in results] == [1_999, 1_998]
    assert in_table(lake) == in_lakehouse(lake)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_deferred_load_leaves_them_out(lake: TableLake, monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)
    large, _ = january(lake)
    delete_by_position(lake.table.table(), {large: [1_000]})
    assert deferring.start(lake, **SLOW).resume()["rows"] == 1_999
    assert in_table(lake) == in_lakehouse(lake)


@pytest.mark.thorough
def test_a_wider_type_and_another_partitioning_since_change_nothing(lake: TableLake) -> None:
    from pyiceberg.types import LongType

    large, _ = january(lake)
    table = lake.table.table()
    with table.update_schema() as change:
        change.update_column("passenger_count", LongType())
    with table.update_spec() as spec:
        spec.remove_field("month")
        spec.add_field("pickup_at", "day", "day")
    rows = Trips(seed=4, rows_per_period=300).table(PERIOD)
    lake.table.table().append(known_types(rows))
    day = min(data_files(lake.table.table(), OF_PERIOD), key=lambda each: each.record_count)
    delete_by_position(lake.table.table(), {large: [0, 600]})
    delete_by_position(lake.table.table(), {day.file_path: [0]}, has_bounds=False)
    assert lake.load()["rows"] == 2_297
    assert in_table(lake) == in_lakehouse(lake)


@pytest.mark.thorough
def test_delete_files_that_are_vacuumed_under_the_load_start_it_over(
    lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, _ = january(lake)
    url = delete_by_position(lake.table.table(), {large: [0]})
    inserts: list[Insert] = []
    insert = Runner.insert

    def vacuuming(runner: Runner, step: Insert) -> InsertStats:
        inserts.append(step)
        if len(inserts) == 1:
            lake.table.overwrite(TRIPS.table(PERIOD), PERIOD)
            lake.table.remove([*(path.removeprefix("s3://") for path in (large, url))])
        return insert(runner, step)

    monkeypatch.setattr(Runner, "insert", vacuuming)
    lake.load()
    assert len(inserts) == 2
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file_format", "kind"), [("PUFFIN", "deletion vectors remove"), ("AVRO", "delete files of AVRO remove")]
)
def test_deletes_of_other_formats_are_refused(lake: TableLake, file_format: str, kind: str) -> None:
    lake.load()
    of = data_files(lake.table.table(), OF_PERIOD)[0]
    commit_deletes(lake.table.table(), of, pa.table({"x": [1]}), file_format=file_format)
    assert is_to_load(lake, PERIOD)
    with pytest.raises(AirflowFailException, match=rf"has rows that {kind}.*Compact the table"):
        lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert lake.load(NEXT)["status"] == "published"


def test_equality_deletes_are_refused_until_the_table_is_compacted(lake: TableLake) -> None:
    lake.load()
    of = data_files(lake.table.table(), OF_PERIOD)[0]
    delete_by_value(lake.table.table(), of, [int(TRIPS.table(PERIOD)["trip_id"][0].as_py())])
    assert is_to_load(lake, PERIOD)
    with pytest.raises(AirflowFailException, match=r"has rows that equality deletes remove.*Compact the table"):
        lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)
    # They do not touch rows that are written after them.
    other = Trips(seed=2, rows_per_period=700)
    lake.table.overwrite(other.table(PERIOD), PERIOD)
    lake.load(max_shrink_fraction=1)
    assert lake.facts() == other.facts(PERIOD)


@pytest.mark.thorough
def test_a_delete_file_that_is_not_what_its_manifest_says_is_refused(lake: TableLake) -> None:
    large, _ = january(lake)
    url = delete_by_position(lake.table.table(), {large: [0, 1]})
    other = delete_by_position(lake.table.table(), {large: [2]})
    client, bucket = lake.table.s3.client(), lake.table.bucket
    key, other_key = (each.removeprefix(f"s3://{bucket}/") for each in (url, other))
    client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": other_key})
    with pytest.raises(AirflowFailException, match=r"has 1 rows, but its manifest says 2"):
        lake.load()


@pytest.mark.thorough
def test_too_many_deleted_rows_are_refused(lake: TableLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_DELETED_ROWS", 3)
    large, _ = january(lake)
    delete_by_position(lake.table.table(), {large: [0, 1, 2, 3]})
    with pytest.raises(AirflowFailException, match=r"remove 4 rows of .*data files .*, and a load takes at most 3\."):
        lake.load()
