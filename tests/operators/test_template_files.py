"""Arguments in files of the DAG folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.dag_bag import DagBag

HEAD = """
from airflow.sdk import DAG
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

PLACE = {"bucket": "lake", "key": "trips/{YYYY-MM}/*.json", "table": "trips"}
"""
ParseDag = Callable[..., Any]


@pytest.fixture
def parse(tmp_path: Path) -> ParseDag:
    """Parse a DAG file with files beside it, as Airflow does; return the DAG, or the error of its import."""

    def parsed(body: str, **files: str) -> Any:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text, encoding="utf-8")
        (tmp_path / "dag.py").write_text(f"{HEAD}\nwith DAG('d', schedule=None):\n    {body}\n", encoding="utf-8")
        bag = DagBag(str(tmp_path))
        return "".join(bag.import_errors.values()) or bag.dags["d"]

    return parsed


@pytest.mark.parametrize("field", ["select", "csv", "settings", "tuning"])
def test_a_json_file_gives_an_object(parse: ParseDag, field: str) -> None:
    given = {"node_specs": {"default": {"cores": 8}}}
    dag = parse(
        f"S3ToClickHouseOperator(task_id='t', period='2026-01', {field}='x.json', **PLACE)", x_json=json.dumps(given)
    )
    assert getattr(dag.get_task("t"), field) == given


def test_an_sql_file_gives_a_text_within_an_object(parse: ParseDag) -> None:
    dag = parse(
        "S3ToClickHouseOperator(task_id='t', period='2026-01', select={'fare': 'fare.sql'}, **PLACE)",
        fare_sql="toDecimal64(fare, 2)\n",
    )
    assert dag.get_task("t").select == {"fare": "toDecimal64(fare, 2)"}


def test_a_field_of_a_struct_is_no_file(parse: ParseDag) -> None:
    dag = parse("S3ToClickHouseOperator(task_id='t', period='2026-01', select={'body': 'event.json'}, **PLACE)")
    assert dag.get_task("t").select == {"body": "event.json"}


def test_keys_that_end_like_files_are_keys(parse: ParseDag) -> None:
    task = parse(
        "S3ToClickHouseOperator(task_id='t', period='2026-01', policies={'ready_key': 'done.json'}, **PLACE)"
    ).get_task("t")
    task.render_template_fields({})
    assert (task.key, task.policies["ready_key"]) == ("trips/{YYYY-MM}/*.json", "done.json")


def test_values_in_files_are_templates(parse: ParseDag) -> None:
    task = parse(
        "S3ToClickHouseOperator(task_id='t', period='2026-01', settings='x.json', **PLACE)",
        x_json='{"max_threads": "{{ params.threads }}"}',
    ).get_task("t")
    task.render_template_fields({"params": {"threads": 3}})
    assert task.settings == {"max_threads": "3"}


def test_a_mapped_task_reads_its_files_when_it_runs(parse: ParseDag) -> None:
    dag = parse(
        "S3ToClickHouseOperator.partial(task_id='t', settings='x.json', **PLACE).expand(period=['2026-01'])",
        x_json='{"max_threads": "{{ params.threads }}"}',
    )
    mapped = dag.get_task("t")
    task = mapped.unmap({"period": "2026-01"})
    task._do_render_template_fields(
        task, task.template_fields, {"params": {"threads": 3}}, mapped.get_template_env(), set()
    )
    assert task.settings == {"max_threads": "3"}


def test_the_plan_compares_what_the_loads_read(parse: ParseDag) -> None:
    dag = parse(
        "scheduled_load(group_id='g', periods='2026-01', select='x.json', settings='y.json', **PLACE)",
        x_json='{"fare": "z.sql"}',
        y_json='{"max_threads": 3}',
        z_sql="fare / 100",
    )
    plan, load = dag.get_task("g.plan"), dag.get_task("g.period.load")
    assert (plan.select, plan.settings) == ({"fare": "fare / 100"}, {"max_threads": 3})
    assert (load.select, load.settings) == (plan.select, plan.settings)


def test_a_file_that_is_missing_is_an_error_of_the_dag(parse: ParseDag, tmp_path: Path) -> None:
    error = parse("S3ToClickHouseOperator(task_id='t', period='2026-01', select={'fare': 'no.sql'}, **PLACE)")
    assert f"select['fare']='no.sql': there is no such file in {tmp_path}. Set its path from" in error


def test_an_sql_file_in_place_of_an_object_is_an_error_of_the_dag(parse: ParseDag) -> None:
    body = "S3ToClickHouseOperator(task_id='t', period='2026-01', select='x.sql', **PLACE)"
    assert "select='x.sql' holds no JSON: " in parse(body, x_sql="SELECT 1")


@pytest.mark.parametrize(("text", "error"), [("{", "holds no JSON: "), ("[1]", "holds no JSON object: ")])
def test_a_file_without_an_object_is_an_error_of_the_dag(parse: ParseDag, text: str, error: str) -> None:
    body = "S3ToClickHouseOperator(task_id='t', period='2026-01', settings='x.json', **PLACE)"
    assert f"settings='x.json' {error}" in parse(body, x_json=text)
