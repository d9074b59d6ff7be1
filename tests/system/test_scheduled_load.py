"""The task group that `scheduled_load` makes."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.postgres import PostgresRows
from airflow_provider_chs3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_chs3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from tests.support.arguments import grouped
from tests.support.dag_bag import DagBag

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


def tasks(**arguments: Any) -> dict[str, BaseOperator]:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
        scheduled_load(**grouped(**{"group_id": "g", "bucket": "b-1", "key": "{YYYY-MM}/", "table": "t"} | arguments))
    return {task.task_id.removeprefix("g."): task for task in dag.tasks}


def read(**arguments: Any) -> None:
    """Make a DAG of a load, as Airflow does of a file."""
    with DAG("d", schedule=None) as dag:
        scheduled_load(**{"bucket": "b", "key": "t/{YYYY-MM}/", "table": "trips", **arguments})
    DagBag(os.devnull).bag_dag(dag)


def test_plan_then_load_and_merges_for_each_period_then_the_end() -> None:
    downstream = {name: sorted(task.downstream_task_ids) for name, task in tasks().items()}
    assert downstream == {
        "plan": ["g.period.load", "g.period.merges"],
        "period.load": ["g.period.merges"],
        "period.merges": ["g.end"],
        "end": [],
    }


def test_with_assets_each_period_ends_with_their_event_once_merges_have_settled() -> None:
    made = tasks(outlets=[Asset("trips")])
    assert made["period.emit"].upstream_task_ids == {"g.period.load", "g.period.merges"}
    assert made["period.emit"].downstream_task_ids == {"g.end"}
    assert made["end"].upstream_task_ids == {"g.period.load", "g.period.merges", "g.period.emit"}
    assert [name for name, task in made.items() if task.outlets] == ["period.emit"]


def test_small_periods_share_a_task_with_and_without_assets() -> None:
    for outlets in ([], [Asset("trips")]):
        assert tasks(outlets=outlets)["plan"].periods_per_task == 60
        assert tasks(outlets=outlets, deferrable=True)["plan"].periods_per_task == 60


def test_the_plan_and_the_sensor_look_where_the_load_goes() -> None:
    made = tasks(database="d", cluster="c", clickhouse_conn_id="other", named_collection="n")
    for name in ("plan", "period.load", "period.merges"):
        assert (made[name].table, made[name].database, made[name].cluster) == ("t", "d", "c")
        assert made[name].clickhouse_conn_id == "other"
    assert made["plan"].objects.named_collection == "n"


def test_what_is_deferrable_is_the_load_and_the_wait_for_merges() -> None:
    made = tasks(deferrable=True)
    assert (made["period.load"].deferrable, made["period.merges"].deferrable) == (True, True)


def test_the_plan_compares_what_the_load_makes_of_the_objects() -> None:
    plan = tasks(select={"id": "trip_id"}, settings={"max_threads": 2})["plan"]
    assert (plan.select, plan.settings, plan.is_compared) == ({"id": "trip_id"}, {"max_threads": 2}, True)


def test_parallel_periods_limits_the_tasks_and_sets_the_share_of_each() -> None:
    load = tasks(parallel_loads=3)["period.load"]
    assert (load.max_active_tis_per_dagrun, load.parallel_loads) == (3, 3)


def test_by_default_two_periods_load_at_a_time_with_half_a_share_each() -> None:
    load = tasks()["period.load"]
    assert (load.max_active_tis_per_dagrun, load.parallel_loads) == (2, 2)


def test_what_is_for_all_tasks_reaches_all() -> None:
    assert {task.retries for task in tasks(default_args={"retries": 7}).values()} == {7}


def test_the_sensor_takes_arguments_of_its_own() -> None:
    merges = tasks(merge_health={"on_stuck": "continue", "mode": "poke"})["period.merges"]
    assert (merges.on_stuck, merges.mode) == ("continue", "poke")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"period": "2026-01"}, r"of table 'trips' got period='2026-01': use periods=…"),
        ({"selekt": {}}, r"of table 'trips' has no argument selekt: do you mean select\?"),
        ({"key": "t/{yyyy-mm-dd}/*"}, r"\{yyyy-mm-dd\} is not understood"),
        ({"key": "s3://b/t/{YYYY-MM/*", "bucket": None}, "has an unmatched brace"),
        ({"key": "raw/t/", "periods": "2026-01, 2026-02"}, "'raw/t/' has no month in it, so it cannot distinguish"),
        ({"key": "t/{YYYY-MM}/", "last_period": "2026-01-03", "lookback": 1}, "has no day in it"),
        ({"periods": ["2026-1"]}, "'2026-1' is not a period"),
    ],
)
def test_a_mistake_is_told_when_the_dag_file_is_read(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read(**wrong)


@pytest.mark.parametrize(
    "given",
    [
        {"key": "{{ params.key }}", "periods": ["2026-01"]},
        {"key": "{% if 1 %}t/{YYYY-MM}{% endif %}/"},
        {"key": "countries/*.parquet"},
        {"key": "countries/*.parquet", "periods": "all"},
        {"key": "raw/t/", "periods": "{{ params.months }}"},
        {"key": "raw/t/", "periods": ["{{ params.month }}"]},
        {"key": "raw/t/", "periods": []},
        {
            "key": None,
            "bucket": None,
            "objects": PostgresRows(table="t", time_column="at"),
            "periods": ["2026-01"],
        },
    ],
)
def test_a_key_that_only_a_run_has_or_of_a_whole_table_is_read_then(given: dict[str, Any]) -> None:
    read(**given)


@pytest.mark.parametrize(
    ("operator", "place"),
    [
        (S3ToClickHouseOperator, {"key": "s3://b/t/"}),
        (GCSToClickHouseOperator, {"bucket": "b", "object_name": "t/"}),
        (ClickHouseToS3Operator, {"key": "s3://b/t/"}),
    ],
)
def test_so_it_is_for_each_operator_of_keys(operator: Any, place: dict[str, Any]) -> None:
    with DAG("d", schedule=None) as dag:
        operator(task_id="t", table="trips", period="2026-01", **place)
    with pytest.raises(ConfigurationError, match="'t/' has no month in it"):
        DagBag(os.devnull).bag_dag(dag)
