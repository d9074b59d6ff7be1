"""A value that comes from a template stays a value: it is refused, or means itself, and never changes a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake
from tests.support.strikes import Strikes, strikes

#: Fixtures.
__all__ = ["strikes"]

TRIPS = Trips(rows_per_period=600, files_per_period=3)
#: They end whatever quotes a value stands in, with and without a backslash of their own.
ENDS = ["'`\")\n", "\\'\\`\\\")\0"]
# `test_`: elsewhere the user of tests may do nothing.
HOSTILE_NAME = 'test_it\'s; `a` \\ "b"\n-- {c:Identifier} /* %s'

Argument = Callable[[str], dict[str, Any]]
ARGUMENTS: dict[str, Argument] = {
    name: lambda text, name=name: {name: text}  # type: ignore[misc]
    for name in (
        "period",
        "table",
        "database",
        "cluster",
        "staging_database",
        "bucket",
        "named_collection",
        "endpoint_url",
        "file_format",
        "compression",
        "ready_key",
        "on_no_objects",
        "on_target_changed",
        "on_other_periods",
    )
} | {
    "key": lambda text: {"key": f"trips/{text}/{{YYYY-MM}}/"},
    "columns": lambda text: {"columns": ["trip_id", text]},
    "select, a column": lambda text: {"select": {text: "trip_id"}},
    "select, an expression": lambda text: {"select": {"trip_id": f"trip_id{text}"}},
    "settings, a name": lambda text: {"settings": {text: 1}},
    "settings, a value": lambda text: {"settings": {"max_threads": text}},
    "node_specs": lambda text: {"node_specs": {"default": {"cores": text, "memory": text}}},
}


def state(lake: Lake) -> list[Any]:
    """All databases and tables of every node, and what the tables hold; a ledger comes with the first load."""
    tables = (
        "SELECT database, name, total_rows FROM system.tables "
        "WHERE name NOT IN ('chs3_ledger', 'chs3_loads', 'chs3_objects') "
        "AND database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') "
        "ORDER BY ALL"
    )
    return [lake.on_every_node("SELECT name FROM system.databases ORDER BY name"), lake.on_every_node(tables)]


@pytest.fixture
def kept_lake(trips_lake: Lake) -> Lake:
    """A lake with files to load, and a table beside that nothing may touch."""
    trips_lake.upload(TRIPS)
    kept = f"{trips_lake.database}.kept"
    trips_lake.on_every_node(f"CREATE TABLE {kept} ENGINE = MergeTree ORDER BY number AS SELECT * FROM numbers(5)")
    return trips_lake


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("argument", ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_value_that_goes_on_with_a_statement_is_refused(
    kept_lake: Lake, strikes: Strikes, argument: Argument
) -> None:
    # `strikes` does not sleep where a load waits for the storage, as it does for an endpoint that is not there.
    before = state(kept_lake)
    for end in ENDS:
        with pytest.raises((AirflowFailException, Chs3Error)):
            kept_lake.load(**argument(f"x{end}); DROP TABLE {kept_lake.database}.kept; --"))
    assert state(kept_lake) == before


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "expression",
    [
        "sum(trip_id)",
        "arrayJoin([1, 2])",
        "(SELECT 1)",
        "sum(trip_id) OVER ()",
        "trip_id LIMIT 1",
        "trip_id ORDER BY trip_id",
        "no_such_column",
        "trip_id FROM system.one",
        "trip_id, sleep(1)",
        "trip_id) FROM system.one; --",
        "(SELECT max(number) FROM numbers(5))",
        "dictGet('secret', 'x', trip_id)",
        "trip_id FORMAT Null",
        "trip_id SETTINGS max_threads = 1",
        "trip_id INTO OUTFILE '/var/lib/clickhouse/x'",
        "trip_id UNION ALL SELECT 1",
        "trip_id /*",
        "trip_id AS fare",
        "DISTINCT trip_id",
        "*",
    ],
)
def test_an_expression_that_is_more_than_one_or_not_row_wise_is_refused(kept_lake: Lake, expression: str) -> None:
    before = state(kept_lake)
    with pytest.raises((AirflowFailException, Chs3Error), match="select"):
        kept_lake.load(select={"trip_id": expression, "pickup_at": "pickup_at"})
    assert state(kept_lake) == before


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["table", "database", "cluster", "staging_database", "bucket"])
def test_a_plan_refuses_such_values_too(kept_lake: Lake, name: str) -> None:
    before = state(kept_lake)
    usual = {"table": kept_lake.table, "database": kept_lake.database, "bucket": kept_lake.bucket}
    for end in ENDS:
        hostile = {name: f"x{end}); DROP TABLE {kept_lake.database}.kept; --"}
        arguments = {"task_id": "plan", "key": "trips/{YYYY-MM}/", "periods": [PERIOD], "cluster": "chs3"}
        with pytest.raises((AirflowFailException, Chs3Error)):
            PlanLoadsOperator(**grouped(**(arguments | usual | hostile))).execute({})
    assert state(kept_lake) == before


@pytest.fixture
def hostile_lake(lake: Lake) -> Iterator[Lake]:
    """A lake whose database, table and column have a name that breaks careless quoting."""
    quoted = "`" + HOSTILE_NAME.replace("\\", "\\\\").replace("`", "\\`") + "`"
    lake.on_every_node(f"CREATE DATABASE {quoted}")
    lake.on_every_node(create_table_sql(f"{quoted}.{quoted}"))
    lake.on_every_node(f"ALTER TABLE {quoted}.{quoted} RENAME COLUMN promo_code TO {quoted}")
    yield lake
    lake.on_every_node(f"DROP DATABASE {quoted} SYNC")


def test_names_of_any_characters_mean_themselves(hostile_lake: Lake) -> None:
    hostile_lake.upload(TRIPS)
    result = hostile_lake.load(
        database=HOSTILE_NAME,
        table=HOSTILE_NAME,
        select={"trip_id": "trip_id", "pickup_at": "pickup_at", HOSTILE_NAME: "promo_code"},
        settings={"log_comment": HOSTILE_NAME},
    )
    assert result["rows"] == 600
    assert result["status"] == "published"
