"""Operators take exactly the declared arguments; groups are dicts for Airflow like any other."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_chs3.core.arguments.declaration import REQUIRED, declared
from airflow_provider_chs3.core.arguments.load_arguments import LOAD
from airflow_provider_chs3.defaults import CLICKHOUSE_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators._support.declared import DECLARED, arguments_of, default_of
from airflow_provider_chs3.operators.ledger import ListLedgerOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from tests.support.operator_pages import operators

PLACE = {"bucket": "lake", "key": "{YYYY-MM}/", "table": "trips"}
#: Those whose arguments are their own, and those that differ from a load from S3 by where the rows are.
_BY_HAND = {
    "ClickHouseOperator",
    "ClickHouseSensor",
    "EmitPeriodOperator",
    "KafkaToS3Operator",
    "ClickHouseToS3Operator",
}


@pytest.mark.parametrize("taking", [taking for taking in DECLARED if arguments_of(taking)])
def test_a_signature_is_the_declaration(taking: type) -> None:
    parameters = list(inspect.signature(taking.__init__).parameters.values())[1:-1]
    assert [(parameter.name, parameter.annotation, parameter.default) for parameter in parameters] == [
        (
            argument.name,
            argument.type,
            None if argument.default is REQUIRED or argument is LOAD else default_of(argument),
        )
        for argument in arguments_of(taking).values()
    ]


def test_a_load_is_the_arguments_of_a_load() -> None:
    fields = {name: (argument.type, argument.help) for name, argument in declared(Load).items()}
    taken = {name: (argument.type, argument.help) for name, argument in arguments_of(S3ToClickHouseOperator).items()}
    # A path of Airflow's is its text there.
    assert fields.pop("key") == ("str | None", taken["key"][1])
    assert fields.pop("name")[0] == "str | None"
    assert fields.items() <= taken.items()


def test_all_operators_are_declared() -> None:
    operators_of_loads = {name: kind for name, kind in operators().items() if name not in _BY_HAND}
    assert len(operators_of_loads) > 15
    assert [name for name, kind in operators_of_loads.items() if not DECLARED.keys() & set(kind.__mro__)] == []


@pytest.mark.parametrize("kind", [*operators().values()], ids=lambda kind: kind.__name__)
def test_what_is_declared_as_a_template_is_one(kind: type[BaseOperator]) -> None:
    arguments = arguments_of(kind)
    wanted = {name for name, each in arguments.items() if each.is_template}
    assert wanted - set(kind.template_fields) <= {"staging_database", "objects"} & (
        wanted if kind.__name__ == "ClickHouseToS3Operator" else set()
    )


def _task(**arguments: Any) -> Any:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=UTC), schedule=None):
        return S3ToClickHouseOperator(task_id="t", period="2026-01", **PLACE | arguments)


def test_templates_within_groups_are_rendered() -> None:
    task = _task(policies={"max_shrink_fraction": "{{ params.lost }}"}, casts={"lossy_columns": ["{{ params.name }}"]})
    task.render_template_fields({"params": {"lost": 0.25, "name": "fare"}})
    assert (task.policies, task.casts) == ({"max_shrink_fraction": "0.25"}, {"lossy_columns": ["fare"]})


def test_an_output_within_a_group_makes_its_task_upstream() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=UTC), schedule=None):
        plan = BaseOperator(task_id="plan")
        load = S3ToClickHouseOperator(task_id="t", period="2026-01", policies={"ready_key": plan.output}, **PLACE)
    assert load.upstream_task_ids == {"plan"}


def test_default_args_of_a_dag_hold_for_groups() -> None:
    arguments = {"policies": {"on_no_objects": "skip"}, "clickhouse_conn_id": "other"}
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=UTC), schedule=None, default_args=arguments):
        task = S3ToClickHouseOperator(task_id="t", period="2026-01", **PLACE)
        own = S3ToClickHouseOperator(task_id="own", period="2026-01", policies={"replace_unknown": True}, **PLACE)
    assert (task.policies, task.clickhouse_conn_id) == ({"on_no_objects": "skip"}, "other")
    assert own.policies == {"replace_unknown": True}


@pytest.mark.parametrize(
    ("common", "mapped"),
    [
        ({"policies": {"on_no_objects": "skip"}}, {"period": ["2026-01", "2026-02"]}),
        ({"period": "2026-01"}, {"policies": [{"on_no_objects": "skip"}, {"on_no_objects": "empty"}]}),
        ({}, {"period": ["2026-01"], "files": [{"file_format": "CSV"}]}),
    ],
)
def test_tasks_are_mapped_over_flat_and_grouped_arguments(common: dict[str, Any], mapped: dict[str, Any]) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=UTC), schedule=None) as dag:
        S3ToClickHouseOperator.partial(task_id="t", **PLACE, **common).expand(**mapped)
    loaded: Any = DagSerialization.deserialize_dag(json.loads(json.dumps(DagSerialization.serialize_dag(dag))))
    assert loaded.get_task("t").operator_class["task_type"] == "S3ToClickHouseOperator"
    first = {name: values[0] for name, values in mapped.items()}
    task = dag.get_task("t").unmap(first)
    assert {name: getattr(task, name) for name in {**common, **first}} == {**common, **first}


def test_a_dag_with_groups_is_serialized() -> None:
    task = _task(
        policies={"on_no_objects": "skip"}, tuning={"node_specs": {"default": {"cores": 8, "memory": "32GiB"}}}
    )
    loaded: Any = DagSerialization.deserialize_dag(json.loads(json.dumps(DagSerialization.serialize_dag(task.dag))))
    assert loaded.get_task("t").policies == {"on_no_objects": "skip"}
    assert loaded.get_task("t").tuning == {"node_specs": {"default": {"cores": 8, "memory": "32GiB"}}}


def test_an_unknown_name_in_a_group_is_an_error_of_the_dag_file() -> None:
    with pytest.raises(ConfigurationError, match="policies has no_objects: it takes on_no_objects, "):
        _task(policies={"no_objects": "skip"})
    with (
        DAG("d", start_date=datetime(2026, 1, 1, tzinfo=UTC), schedule=None),
        pytest.raises(ConfigurationError, match="files has format: it takes "),
    ):
        scheduled_load(lookback=1, files={"format": "CSV"}, **PLACE)


TRIPS = Load(table="taxi.trips", key="s3://lake/trips/{YYYY-MM}/", select={"id": "id"}, aws_conn_id=None)


def test_a_task_takes_a_load_in_place_of_its_arguments() -> None:
    with DAG("d", schedule=None):
        load = S3ToClickHouseOperator(task_id="load", load=TRIPS, period="2026-01", deferrable=True)
        plan = PlanLoadsOperator(task_id="plan", load=TRIPS, all_periods=True)
        ledger = ListLedgerOperator(task_id="ledger", load=TRIPS)
    assert (load.table, load.key, load.select, load.deferrable) == (TRIPS.table, TRIPS.key, TRIPS.select, True)
    assert (load.as_load(), load.store.aws_conn_id) == (replace(TRIPS, clickhouse_conn_id=CLICKHOUSE_CONN_ID), None)
    assert (plan.select, plan.is_compared, ledger.table) == (TRIPS.select, True, "taxi.trips")


def test_a_load_overrides_default_args_and_nothing_else() -> None:
    with DAG("d", schedule=None, default_args={"table": "other", "aws_conn_id": "other", "retries": 3}):
        task = S3ToClickHouseOperator(task_id="load", load=TRIPS, period="2026-01")
        with pytest.raises(ConfigurationError) as raised:
            S3ToClickHouseOperator(task_id="twice", load=TRIPS, period="2026-01", select={}, table="trips")
    assert (task.table, task.aws_conn_id, task.retries) == ("taxi.trips", None, 3)
    assert str(raised.value) == (
        "table, select: load=… of table 'taxi.trips' says this. Leave it out, or change the load: "
        "dataclasses.replace(load, table=…)."
    )


def test_a_task_without_a_table_says_what_to_give() -> None:
    with DAG("d", schedule=None), pytest.raises(ConfigurationError) as raised:
        ListLedgerOperator(task_id="ledger")
    assert str(raised.value) == "ListLedgerOperator needs table=…, or load=…, which has it."


def test_a_mapped_task_takes_a_load() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=UTC), schedule=None) as dag:
        S3ToClickHouseOperator.partial(task_id="t", load=TRIPS).expand(period=["2026-01", "2026-02"])
    loaded: Any = DagSerialization.deserialize_dag(json.loads(json.dumps(DagSerialization.serialize_dag(dag))))
    assert loaded.get_task("t").operator_class["task_type"] == "S3ToClickHouseOperator"
    task = dag.get_task("t").unmap({"period": "2026-01"})
    assert (task.select, task.aws_conn_id, task.period) == (TRIPS.select, None, "2026-01")
