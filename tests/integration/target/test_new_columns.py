"""Files that have columns which the table lacks: named in the log, refused, or added."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator
from tests.integration.plans import plan
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet, refused
from tests.support.several_periods import Periods

BEFORE = "2026-09"


@pytest.fixture
def numbers(lake: Lake) -> Lake:
    lake.table = "numbers"
    columns = "(day Date32, n Int64) ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY n"
    lake.on_every_node(f"CREATE TABLE {lake.database}.numbers {columns}")
    return lake


def put(lake: Lake, period: str, name: str, n: int, **further: Any) -> None:
    day = pa.array([f"{period}-05"]).cast(pa.date32())
    table = pa.table({"day": day, "n": pa.array([n])} | {key: pa.array([value]) for key, value in further.items()})
    lake.put(f"n/{period}/{name}.parquet", parquet(table))


def load(lake: Lake, period: str = PERIOD, **options: Any) -> str:
    return lake.load(period=period, key="n/{YYYY-MM}/", **options)["status"]


def rows(lake: Lake, columns: str = "n, color, weight") -> list[tuple[Any, ...]]:
    source = f"cluster('{lake.cluster.name}', {lake.database}, numbers)"
    return lake.on_node(0, f"SELECT {columns} FROM {source} ORDER BY n")


def types(lake: Lake) -> list[list[tuple[Any, ...]]]:
    where = f"database = '{lake.database}' AND table = 'numbers'"
    return lake.on_every_node(f"SELECT name, type FROM system.columns WHERE {where} ORDER BY position")


def test_the_log_names_them_and_they_are_not_loaded_or_fail_the_load(
    numbers: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    put(numbers, PERIOD, "a", 1, color="red", weight=1.5)
    said = "The files of 2026-10 have columns that .*numbers lacks: 'color', 'weight'"
    said += ".*load without them with policies={'on_new_columns': 'warn'}"
    refused(numbers, said, key="n/{YYYY-MM}/", on_new_columns="fail")
    assert len(types(numbers)[0]) == 2
    capsys.readouterr()
    assert load(numbers) == "published"
    assert "Columns in the files that are not loaded: color, weight." in capsys.readouterr().out
    assert rows(numbers, "n") == [(1,)]


@pytest.mark.three_nodes
def test_they_are_added_on_every_node_and_older_periods_stay(numbers: Lake) -> None:
    put(numbers, BEFORE, "a", 1)
    load(numbers, BEFORE, on_new_columns="add")
    put(numbers, PERIOD, "a", 2, color="red", weight=1.5, **{"t`i'c\\k": 7})
    assert load(numbers, on_new_columns="add") == "published"
    added = [("color", "Nullable(String)"), ("weight", "Nullable(Float64)"), ("t`i'c\\k", "Nullable(Int64)")]
    assert types(numbers) == [[("day", "Date32"), ("n", "Int64"), *added]] * len(numbers.cluster.nodes)
    assert rows(numbers, "n, color, weight, `t\\`i'c\\\\k`") == [(1, None, None, None), (2, "red", 1.5, 7)]
    assert load(numbers, BEFORE, on_new_columns="add") == "unchanged"
    assert load(numbers, on_new_columns="add") == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_those_of_texts_get_the_types_of_their_values(numbers: Lake, ending: str) -> None:
    at = f"{PERIOD}-07 08:09:10"
    line = {"day": f"{PERIOD}-05", "n": 1, "color": "a b", "at": at, "weight": 0.25}
    text = json.dumps(line) if ending == "jsonl" else f"{','.join(line)}\n{','.join(map(str, line.values()))}\n"
    numbers.put(f"n/{PERIOD}/a.{ending}", text.encode())
    assert load(numbers, on_new_columns="add", file_format=None if ending == "jsonl" else "CSVWithNames") == "published"
    assert rows(numbers, "n, color, toString(at), weight") == [(1, "a b", at, 0.25)]
    assert dict(types(numbers)[0])["at"] == "Nullable(DateTime('UTC'))"


@pytest.mark.thorough
def test_a_new_file_with_a_new_column_loads_the_period_whole(numbers: Lake) -> None:
    put(numbers, PERIOD, "a", 1, color="red")
    load(numbers)
    put(numbers, PERIOD, "b", 2, color="blue", weight=2.5)
    with pytest.raises(Exception, match="'weight' is missing in"):
        load(numbers, on_new_columns="add")
    put(numbers, PERIOD, "a", 1, color="red", weight=1.5)
    assert load(numbers, on_new_columns="add") == "published"
    assert rows(numbers) == [(1, "red", 1.5), (2, "blue", 2.5)]


@pytest.mark.thorough
def test_older_periods_whose_files_have_them_load_again_once_a_plan_covers_them(
    numbers: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    put(numbers, "2026-08", "a", 0)
    put(numbers, BEFORE, "a", 1, color="red")
    put(numbers, PERIOD, "a", 2, color="blue")
    load(numbers, "2026-08")
    load(numbers, BEFORE)
    load(numbers, on_new_columns="add")
    planned = {"key": "n/{YYYY-MM}/", "last_period": PERIOD, "definition": {}}
    assert plan(numbers, lookback=0, **planned) == []

    capsys.readouterr()
    assert plan(numbers, lookback=2, **planned) == [BEFORE]
    assert "column 'color' was added to the table, and the period's files have it" in capsys.readouterr().out
    assert load(numbers, BEFORE, on_new_columns="add") == "published"
    assert rows(numbers, "n, color") == [(0, None), (1, "red"), (2, "blue")]


@pytest.mark.thorough
def test_a_period_loaded_without_them_loads_again_once_they_are_to_be_added(numbers: Lake) -> None:
    put(numbers, "2026-08", "a", 0)
    put(numbers, BEFORE, "a", 1, color="red")
    numbers.put(f"n/{PERIOD}/a.jsonl", json.dumps({"day": f"{PERIOD}-05", "n": 2, "color": "blue"}).encode())
    periods = ("2026-08", BEFORE, PERIOD)
    kinds = {period: {"key": "n/{YYYY-MM}/*.jsonl"} if period == PERIOD else {} for period in periods}
    for period in periods:
        assert numbers.load(**{"period": period, "key": "n/{YYYY-MM}/", **kinds[period]})["status"] == "published"
    asked = {"key": "n/{YYYY-MM}/", "periods": list(periods)}
    added = {"on_new_columns": "add"}
    assert (plan(numbers, **asked, definition={}), plan(numbers, **asked, definition=added)) == ([], [BEFORE, PERIOD])
    found = [numbers.load(**{"period": period, "key": "n/{YYYY-MM}/", **kinds[period], **added}) for period in periods]
    assert [each["status"] for each in found] == ["unchanged", "published", "published"]
    assert rows(numbers, "n, color") == [(0, None), (1, "red"), (2, "blue")]
    assert plan(numbers, **asked, definition=added) == []


@pytest.mark.thorough
def test_older_periods_that_are_adopted_keep_their_rows(numbers: Lake) -> None:
    put(numbers, BEFORE, "a", 1, color="red")
    put(numbers, PERIOD, "a", 2, color="blue")
    load(numbers, BEFORE)
    load(numbers, on_new_columns="add")
    place = {"database": numbers.database, "table": numbers.table, "cluster": numbers.cluster.name, "timezone": "UTC"}
    AdoptPeriodsOperator(task_id="adopt", bucket=numbers.bucket, key="n/{YYYY-MM}/", periods=[BEFORE], **place).execute(
        {}
    )
    assert load(numbers, BEFORE, on_new_columns="add") == "unchanged"
    assert rows(numbers, "n, color") == [(1, None), (2, "blue")]


@pytest.mark.thorough
def test_periods_that_are_loaded_together_get_them(numbers: Lake) -> None:
    for n, period in enumerate((BEFORE, PERIOD)):
        put(numbers, period, "a", n, color=f"c{n}")
    assert Periods(numbers).statuses(BEFORE, PERIOD, on_new_columns="add") == {BEFORE: "published", PERIOD: "published"}
    assert rows(numbers, "n, color") == [(0, "c0"), (1, "c1")]


def test_choices_that_contradict_each_other_are_refused(numbers: Lake) -> None:
    put(numbers, PERIOD, "a", 1)
    refused(
        numbers,
        "policies={'on_new_columns': 'add'} creates all columns",
        key="n/{YYYY-MM}/",
        on_new_columns="add",
        columns=["n"],
    )
    refused(
        numbers, r"'\]='keep' is not allowed: use one of warn, fail, add", key="n/{YYYY-MM}/", on_new_columns="keep"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["create", "add"])
def test_columns_with_names_of_virtual_ones_are_loaded(lake: Lake, how: str) -> None:
    lake.table = "numbers"
    if how == "add":
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.numbers (day Date32, n Int64) ENGINE = MergeTree PARTITION BY toYYYYMM(day) "
            "ORDER BY n"
        )
    options = {"create_table": "if_missing"} if how == "create" else {"on_new_columns": "add"}
    put(lake, PERIOD, "a", 1, _file="one", _size=7, _time="noon", _etag="x", _partition_id="y")
    assert load(lake, **options) == "published"
    assert rows(lake, "_file, _size, _time, _etag, _partition_id") == [("one", 7, "noon", "x", "y")]


@pytest.mark.thorough
def test_a_new_column_named_path_is_refused(numbers: Lake) -> None:
    put(numbers, PERIOD, "a", 1, _path="here")
    refused(numbers, "would need a column '_path'", key="n/{YYYY-MM}/", on_new_columns="add")
    assert len(types(numbers)[0]) == 2
    assert load(numbers) == "published"
