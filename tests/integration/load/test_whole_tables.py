"""Tables without partitions: nights add to them, and nothing reads all of their objects again unless it may."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.topology import OBJECTS_TABLE
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.integration.grains import Case, Source
from tests.support.arguments import grouped
from tests.support.lake import Lake

WHOLE = Case("", "{YYYY-MM-DD}", "all")
#: The load reads the path of each row's object, too.
BY_OBJECT = {
    "columns": None,
    "file_format": "JSONEachRow",
    "select": {"number": "number", "path": "_path"},
    "object_column": "path",
}


@pytest.fixture
def table(lake: Lake) -> Source:
    return Source(lake, WHOLE)


def put_night(table: Source, day: int, numbers: int = 0) -> None:
    table.put("all", "a", numbers + 100 * day, moments=[datetime(2026, 10, day, hour) for hour in range(3)])


def planned(table: Source, **options: Any) -> str:
    """Return what a plan says of the load with these arguments."""
    lake = table.lake
    place = {"bucket": lake.bucket, "key": table.pattern, "database": lake.database, "table": lake.table}
    of_load = {name: value for name, value in options.items() if name not in ("period", "periods")}
    given = grouped(**{"file_format": "CSV", "columns": ["at", "number"], **of_load})
    load = Load(cluster=lake.cluster.name, **place, **given)
    plan = PlanLoadsOperator(task_id="plan", periods=["all"], load=load)
    (found,) = plan.planned({})
    return found.reason


def refuse(table: Source, why: str, **options: Any) -> None:
    """Load, which stops with one error and changes nothing."""
    rows = table.found()
    with pytest.raises(AirflowFailException, match=f"would load it whole again, reading .*: {why}.* To allow") as error:
        table.load(**options)
    assert table.found() == rows
    # The plan says it beforehand.
    assert planned(table, **options) == f"its load will stop: {error.value}"
    assert table.lake.left_behind() == []


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("key", ["", "tuple()"])
def test_nights_read_what_is_new(lake: Lake, key: str) -> None:
    table = Source(lake, replace(WHOLE, partition_key=key))
    put_night(table, 1)
    put_night(table, 2)
    table.load(period="all")
    for night in range(3, 6):
        put_night(table, night)
        load = table.operator(period="all")
        assert load.execute({})["status"] == "published"
        assert [len(insert.paths) for insert in load.inserts] == [1]
        assert table.found() == table.expected()
    assert table.load(period="all") == ["unchanged"]


@pytest.mark.thorough
def test_nights_go_on_where_merges_do_not(table: Source) -> None:
    # 1,200 parts, as of so many nights whose parts nothing merges.
    lake, never = table.lake, "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
    lake.on_every_node(f"ALTER TABLE {lake.database}.{lake.table} MODIFY SETTING {never}")
    first = datetime(2025, 1, 1, 12)
    table.put("all", "a", 0, moments=[first + timedelta(seconds=number) for number in range(1_200)])
    each_row = {"max_insert_block_size": 1, "min_insert_block_size_rows": 1, "min_insert_block_size_bytes": 1}
    each_row |= {"max_block_size": 1, "max_insert_threads": 1}
    assert table.load(period="all", settings=each_row) == ["published"]
    parts = f"SELECT count() FROM system.parts WHERE database = '{lake.database}' AND table = '{lake.table}' AND active"
    assert sum(rows[0][0] for rows in lake.on_every_node(parts)) == 1_200
    for night in (1, 2):
        table.put("all", "b", 5_000 * night, moments=[first + timedelta(days=night)])
        load = table.operator(period="all")
        assert load.execute({})["status"] == "published"
        assert [len(insert.paths) for insert in load.inserts] == [1]
        assert table.found() == table.expected()
    assert table.load(period="all") == ["unchanged"]


@pytest.mark.thorough
def test_overwritten_objects_need_permission_to_read_all(table: Source) -> None:
    for night in (1, 2, 3):
        put_night(table, night)
    table.load(period="all")
    put_night(table, 2, 5000)
    refuse(table, "since the period was published, 1 overwritten", period="all")
    refuse(table, "since the period was published, 1 overwritten", period=None, periods=["all"])
    assert table.load(period="all", reload_whole_table=True) == ["published"]
    assert table.found() == table.expected()
    # It is of the one load: the next one needs it again.
    put_night(table, 1, 9000)
    refuse(table, "since the period was published", period="all")


@pytest.mark.thorough
def test_deleted_objects_need_permission_to_read_all(table: Source) -> None:
    for night in (1, 2, 3):
        put_night(table, night)
    table.load(period="all")
    (gone,) = [key for key in table.rows if "2026-10-02" in key]
    table.lake.s3.delete_object(Bucket=table.lake.bucket, Key=gone)
    del table.rows[gone]
    refuse(table, "since the period was published, 1 deleted", period="all")
    assert table.load(period="all", reload_whole_table=True) == ["published"]
    assert table.found() == table.expected()


@pytest.mark.thorough
def test_another_definition_needs_permission_to_read_all(table: Source) -> None:
    put_night(table, 1)
    table.load(period="all")
    refuse(table, "its definition changed since it was published", period="all", lossy_columns=["at"])
    assert table.load(period="all", lossy_columns=["at"], reload_whole_table=True) == ["published"]
    assert table.found() == table.expected()


@pytest.mark.thorough
def test_loads_without_increments_need_permission_to_read_all(table: Source) -> None:
    put_night(table, 1)
    table.load(period="all", incremental=False)
    put_night(table, 2)
    refuse(table, r"increments=\{'incremental': False\}", period="all", incremental=False)
    assert table.load(period="all") == ["published"]
    assert table.found() == table.expected()


@pytest.mark.thorough
def test_the_last_increment_of_a_table_that_merges_rows(lake: Lake) -> None:
    table = Source(lake, WHOLE, engine="ReplacingMergeTree")
    for night in (1, 2):
        put_night(table, night)
        table.load(period="all", max_increments=1)
    put_night(table, 3)
    why = r"1 loads have added to it \(increments\['max_increments'\]=1\)"
    refuse(table, why, period="all", max_increments=1)
    assert table.load(period="all", max_increments=1, reload_whole_table=True) == ["published"]
    assert table.found() == table.expected()


@pytest.mark.thorough
def test_rows_of_others_have_a_policy_of_their_own(table: Source) -> None:
    put_night(table, 1)
    table.load(period="all")
    table.lake.on_node(0, f"INSERT INTO {table.lake.database}.{table.lake.table} VALUES (0, 0)")
    with pytest.raises(AirflowFailException, match="on_target_changed"):
        table.load(period="all")
    assert table.load(period="all", on_target_changed="reload") == ["published"]
    assert table.found() == table.expected()


@pytest.mark.thorough
def test_an_object_column_replaces_the_rows_of_overwritten_objects(lake: Lake) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{lake.table} (number UInt64, path String) ENGINE = MergeTree ORDER BY number"
    )
    expected = {f"lake/2026-10-{day:02}/a.jsonl": day for day in range(1, 11)}

    def put(key: str, number: int) -> None:
        expected[key] = number
        lake.put(key, f'{{"number": {number}}}\n'.encode())

    for key, number in list(expected.items()):
        put(key, number)
    options = BY_OBJECT | {"key": "lake/{YYYY-MM-DD}/*.jsonl", "period": "all"}
    assert lake.load(**options)["status"] == "published"
    put("lake/2026-10-03/a.jsonl", 33)
    put("lake/2026-10-11/a.jsonl", 11)
    load = lake.operator(**options)
    assert load.execute({})["status"] == "published"
    assert [len(insert.paths) for insert in load.inserts] == [2]
    rows = lake.on_node(0, f"SELECT number, path FROM {lake.database}.{lake.table}")
    assert sorted(rows) == sorted((number, f"{lake.bucket}/{key}") for key, number in expected.items())


@pytest.mark.thorough
def test_its_objects_are_known_for_as_long_as_it_lives(table: Source) -> None:
    lake = table.lake
    for night in (1, 2):
        put_night(table, night)
        table.load(period="all")
    objects, older = f"{lake.database}.{OBJECTS_TABLE}", f"{lake.database}.older"
    lake.on_every_node(f"CREATE TABLE {older} AS {objects}")
    for period in ("period", "'2025-06'"):
        values = f"now64(3) - INTERVAL 500 DAY AS loaded_at, {period} AS period"
        lake.on_every_node(f"INSERT INTO {older} SELECT * REPLACE ({values}) FROM {objects}")
    lake.on_every_node(f"EXCHANGE TABLES {objects} AND {older}")
    lake.on_every_node(f"OPTIMIZE TABLE {objects} FINAL")
    assert lake.on_every_node(f"SELECT DISTINCT period FROM {objects}") == [[("all",)]] * len(lake.cluster.nodes)
    put_night(table, 3)
    load = table.operator(period="all")
    assert load.execute({})["status"] == "published"
    assert [len(insert.paths) for insert in load.inserts] == [1]
    assert table.found() == table.expected()


class TestExpiry:
    """A TTL that has removed the odd numbers once merges are done: of some days a part of the rows, of others all."""

    CLAUSE = "TTL toDateTime(if(number % 2 = 0, 4102444800, 86400))"

    def load(self, source: Source, *periods: str) -> list[str]:
        statuses = source.load(period=None, periods=list(periods))
        table = f"{source.lake.database}.{source.lake.table}"
        source.lake.on_every_node(f"OPTIMIZE TABLE {table} FINAL")
        assert source.found() == [row for row in source.expected() if row[1] % 2 == 0]
        return statuses

    @pytest.mark.thorough
    @pytest.mark.parametrize("numbers", [(0, 1, 2), (1,)], ids=["partly", "wholly"])
    def test_a_whole_table_goes_on_with_what_is_new(self, lake: Lake, numbers: tuple[int, ...]) -> None:
        table = Source(lake, WHOLE)
        lake.on_every_node(f"ALTER TABLE {lake.database}.{lake.table} MODIFY {self.CLAUSE}")
        for night in range(1, 4):
            moments = [datetime(2026, 10, night, hour) for hour in numbers]
            table.put("all", "a", 100 * night + numbers[0], moments=moments)
            assert self.load(table, "all") == ["published"]
            assert self.load(table, "all") == ["unchanged"]

    def test_days_stay_as_published(self, lake: Lake) -> None:
        days = Source(lake, Case("toDate(at)", "{YYYY-MM-DD}", "2026-10-01"))
        lake.on_every_node(f"ALTER TABLE {lake.database}.{lake.table} MODIFY {self.CLAUSE}")
        names = ["2026-10-01", "2026-10-02", "2026-10-03"]
        for number, day in enumerate(names):
            at = Period.parse(day).begin
            hours = range(3) if number < 2 else range(1)
            days.put(day, "a", 100 * number + number // 2, moments=[at.replace(hour=hour) for hour in hours])
        assert self.load(days, *names) == ["published"] * 3
        assert self.load(days, *names) == ["unchanged"] * 3
        days.put(names[2], "b", 301, moments=[datetime(2026, 10, 3, 5)])
        assert self.load(days, *names) == ["unchanged", "unchanged", "published"]
        assert self.load(days, *names) == ["unchanged"] * 3
