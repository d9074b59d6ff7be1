"""common-sql's operators, sensors and helpers run on the connection type as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.sql.operators.generic_transfer import GenericTransfer
from airflow.providers.common.sql.operators.sql import (
    SQLCheckOperator,
    SQLColumnCheckOperator,
    SQLExecuteQueryOperator,
    SQLInsertRowsOperator,
    SQLIntervalCheckOperator,
    SQLTableCheckOperator,
    SQLThresholdCheckOperator,
    SQLValueCheckOperator,
)
from airflow.providers.common.sql.sensors.sql import SqlSensor
from airflow.sdk.execution_time import macros

from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError, RowError

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

CONNECTION = {"task_id": "t", "conn_id": "chs3_default"}
DAY = "2026-10-06"


@pytest.fixture
def table(hook: ClickHouseHook, chs3_database: str) -> str:
    name = f"{chs3_database}.trips"
    hook.query(f"CREATE TABLE {name} (id UInt32, day Date, fare Float64) ENGINE = MergeTree ORDER BY id")
    hook.query(f"INSERT INTO {name} SELECT number, toDate('{DAY}') - number % 2, number FROM numbers(10)")
    return name


def execute(sql: str | list[str], **arguments: Any) -> Any:
    return SQLExecuteQueryOperator(**CONNECTION, sql=sql, **arguments).execute({})


def test_the_connection_leads_to_the_hook(hook: ClickHouseHook) -> None:
    found = SQLExecuteQueryOperator(**CONNECTION, sql="SELECT 1").get_db_hook()
    assert type(found) is type(hook)


def test_a_query_takes_parameters(table: str) -> None:
    assert execute(f"SELECT count() FROM {table} WHERE fare < %(most)s", parameters={"most": 3}) == [(3,)]


def test_a_query_takes_positional_parameters(hook: ClickHouseHook) -> None:
    assert execute("SELECT %s, '100%'", parameters=("it's",)) == [("it's", "100%")]


def test_statements_are_split(hook: ClickHouseHook) -> None:
    script = """
        -- one; two
        SET max_threads = 3;  # not a statement; at all
        SELECT getSetting('max_threads'), 'a;b''c;\\';', `x;y`  /* ; */ FROM (SELECT 1 AS `x;y`);
        -- the end;
    """
    assert execute(script, split_statements=True) == [(3, "a;b'c;';", 1)]


def test_a_list_of_statements_is_one_session(hook: ClickHouseHook) -> None:
    results = execute(["CREATE TEMPORARY TABLE mine (x UInt8)", "INSERT INTO mine VALUES (7)", "SELECT x FROM mine"])
    assert results[-1] == [(7,)]


def test_a_statement_without_a_result_returns_nothing(table: str) -> None:
    assert execute(f"ALTER TABLE {table} DELETE WHERE 0") is None


def test_an_operators_database_wins(hook: ClickHouseHook, chs3_database: str) -> None:
    assert execute("SELECT currentDatabase()", database=chs3_database) == [(chs3_database,)]


def test_autocommit_makes_no_difference(table: str) -> None:
    execute(f"INSERT INTO {table} VALUES (99, '{DAY}', 1)", autocommit=True)
    assert execute(f"SELECT count() FROM {table}") == [(11,)]


def test_an_inserted_row_is_not_counted_twice_by_a_second_statement(table: str, hook: ClickHouseHook) -> None:
    execute([f"INSERT INTO {table} VALUES (99, '{DAY}', 1)", "SELECT 1"])
    assert hook.get_first(f"SELECT count() FROM {table}") == (11,)


@pytest.mark.newer("UNION of columns without a common type, as the operator asks for it")
def test_a_column_check_of_several_columns_passes(table: str) -> None:
    checks = {
        "id": {"distinct_check": {"equal_to": 10}, "null_check": {"equal_to": 0}},
        "fare": {"max": {"less_than": 10}},
    }
    SQLColumnCheckOperator(**CONNECTION, table=table, column_mapping=checks).execute({})


def test_a_column_check_fails_and_takes_a_partition(table: str) -> None:
    check = SQLColumnCheckOperator(**CONNECTION, table=table, column_mapping={"fare": {"max": {"less_than": 5}}})
    with pytest.raises(AirflowException, match="max"):
        check.execute({})
    of_day = {"column_mapping": {"id": {"min": {"equal_to": 0}}}, "partition_clause": f"day = '{DAY}'"}
    SQLColumnCheckOperator(**CONNECTION, table=table, **of_day).execute({})


def test_a_table_check_passes_or_fails(table: str) -> None:
    checks = {"rows": {"check_statement": "count(*) = 10"}, "fares": {"check_statement": "min(fare) >= 0"}}
    SQLTableCheckOperator(**CONNECTION, table=table, checks=checks).execute({})
    check = SQLTableCheckOperator(**CONNECTION, table=table, checks={"rows": {"check_statement": "count(*) = 11"}})
    with pytest.raises(AirflowException, match="rows"):
        check.execute({})


def test_checks_of_a_query_pass_or_fail(table: str) -> None:
    counted = f"SELECT count() FROM {table}"
    SQLCheckOperator(**CONNECTION, sql=counted).execute({})
    with pytest.raises(AirflowException):
        SQLCheckOperator(**CONNECTION, sql=f"{counted} WHERE 0").execute({})
    SQLValueCheckOperator(**CONNECTION, sql=counted, pass_value=10).execute({})
    SQLThresholdCheckOperator(**CONNECTION, sql=counted, min_threshold=5, max_threshold="SELECT 20").execute({})
    check = SQLIntervalCheckOperator(
        **CONNECTION, table=table, metrics_thresholds={"count(*)": 1.5}, date_filter_column="day", days_back=-1
    )
    check.render_template_fields({"ds": DAY, "macros": macros})
    check.execute({})


def test_a_sensor_waits_for_a_row_and_sees_zero_as_not_yet(table: str) -> None:
    counted = f"SELECT count() FROM {table}"
    assert SqlSensor(**CONNECTION, sql=f"{counted} WHERE id > %(least)s", parameters={"least": 5}).poke({})
    assert not SqlSensor(**CONNECTION, sql=f"{counted} WHERE 0").poke({})


def test_extremes_are_no_records(make_hook: Callable[..., ClickHouseHook]) -> None:
    hook = make_hook(extra={"settings": {"extremes": 1}})
    assert hook.get_records("SELECT number FROM numbers(3)") == [(0,), (1,), (2,)]
    assert hook.get_first("SELECT max(number) FROM numbers(3)") == (2,)
    assert hook.get_first("SELECT number FROM numbers(0)") is None


def test_rows_are_inserted_by_the_hook(hook: ClickHouseHook, table: str) -> None:
    hook.insert_rows(table, [(100, date(2026, 10, 1), 1.5), (101, date(2026, 10, 2), 2.5)], ["id", "day", "fare"])
    assert hook.get_records(f"SELECT * FROM {table} WHERE id >= %s ORDER BY id", [100]) == [
        (100, date(2026, 10, 1), 1.5),
        (101, date(2026, 10, 2), 2.5),
    ]


def test_rows_go_out_in_one_block_a_commit(hook: ClickHouseHook, table: str) -> None:
    hook.query(f"TRUNCATE TABLE {table}")
    hook.insert_rows(
        table, ((i, date(2026, 10, 1), 0.0) for i in range(2500)), ["id", "day", "fare"], commit_every=1000
    )
    parts = hook.query(f"SELECT uniq(_part), count() FROM {table}")
    assert parts == [(3, 2500)]


DAY = date(2026, 10, 1)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ((7, "2026-10-01", 1.5), "'2026-10-01', a Python str, is no value for column 'day' of type Date"),
        ((7, None, 1.5), "NULL is no value for column 'day' of type Date"),
        ((-1, DAY, 1.5), "-1, a Python int, is no value for column 'id' of type UInt32"),
        ((7, DAY, "x"), "'x', a Python str, is no value for column 'fare' of type Float64"),
        ((7, DAY), "it has 2 values for 3 columns: id, day, fare"),
        ((7, DAY, 1.5, 0), "it has 4 values for 3 columns: id, day, fare"),
    ],
)
def test_a_row_that_does_not_fit_is_named(hook: ClickHouseHook, table: str, row: Any, told: str) -> None:
    rows = [(100 + number, DAY, 0.0) for number in range(25)]
    rows[17] = row
    with pytest.raises(RowError) as caught:
        hook.insert_rows(table, iter(rows), ["id", "day", "fare"], commit_every=10)
    assert str(caught.value) == f"Row 18 cannot be inserted: {told}. Rows 1 to 10 were inserted."
    assert hook.get_first(f"SELECT count(), max(id) FROM {table} WHERE id >= 100") == (10, 109)


def test_of_rows_that_do_not_fit_the_first_is_named(hook: ClickHouseHook, table: str) -> None:
    rows = [(100, DAY, 0.0), (101, DAY, "late column"), ("early column", DAY, 0.0)]
    with pytest.raises(RowError, match=r"^Row 2 cannot be inserted: 'late column'"):
        hook.insert_rows(table, rows, ["id", "day", "fare"])


@pytest.mark.parametrize("commit_every", [0, 1, 2, 3, 4])
def test_all_rows_are_inserted_however_many_go_together(hook: ClickHouseHook, table: str, commit_every: int) -> None:
    hook.insert_rows(table, [(100 + n, DAY, 0.0) for n in range(3)], ["id", "day", "fare"], commit_every=commit_every)
    assert hook.get_records(f"SELECT id FROM {table} WHERE id >= 100 ORDER BY id") == [(100,), (101,), (102,)]


def test_a_servers_error_of_an_insert_is_told_as_such(hook: ClickHouseHook, table: str) -> None:
    hook.query(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK fare >= 0")
    with pytest.raises(ClickHouseServerError, match="469"):
        hook.insert_rows(table, [(100, DAY, -1.0)], ["id", "day", "fare"])


def test_replacing_rows_is_refused(hook: ClickHouseHook, table: str) -> None:
    with pytest.raises(ConfigurationError, match="no REPLACE INTO"):
        hook.insert_rows(table, [(1,)], ["id"], replace=True)


def test_rows_are_inserted_by_the_operator(hook: ClickHouseHook, table: str) -> None:
    SQLInsertRowsOperator(**CONNECTION, table_name=table, rows=[(100, 1.5)], columns=["id", "fare"]).execute({})
    assert hook.get_first(f"SELECT fare FROM {table} WHERE id = 100") == (1.5,)


def test_rows_are_transferred(hook: ClickHouseHook, table: str) -> None:
    GenericTransfer(
        task_id="t",
        sql=f"SELECT id + 100, day, fare FROM {table}",
        source_conn_id="chs3_default",
        destination_conn_id="chs3_default",
        destination_table=table,
        insert_args={"target_fields": ["id", "day", "fare"]},
    ).execute({})
    assert hook.get_first(f"SELECT count(), max(id) FROM {table}") == (20, 109)


def test_a_data_frame_has_the_columns(hook: ClickHouseHook) -> None:
    frame = hook.get_df("SELECT number AS n, toString(number) AS s FROM numbers(3)")
    assert (list(frame.columns), frame.n.sum()) == (["n", "s"], 3)


def test_data_frames_come_in_chunks(hook: ClickHouseHook) -> None:
    chunks = hook.get_df_by_chunks("SELECT number FROM numbers(5)", chunksize=2)
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]


def test_statements_are_not_logged(hook: ClickHouseHook, caplog: pytest.LogCaptureFixture) -> None:
    hook.get_first("SELECT 'AKIAIOSFODNN7'")
    assert "AKIAIOSFODNN7" not in caplog.text


def test_the_uri_is_one_for_sqlalchemy(hook: ClickHouseHook) -> None:
    from sqlalchemy.engine import make_url

    assert make_url(hook.get_uri()).render_as_string() == hook.sqlalchemy_url.render_as_string()


def test_the_url_hides_the_password(hook: ClickHouseHook) -> None:
    (host, port) = hook.options.hosts[0]
    assert str(hook.sqlalchemy_url) == f"clickhouse+native://loader:***@{host}:{port}/default"


def test_lineage_names_server_and_tables(hook: ClickHouseHook, table: str) -> None:
    sqlparser = pytest.importorskip("airflow.providers.openlineage.sqlparser")
    database = table.partition(".")[0]
    hook.query(f"CREATE TABLE {database}.copy AS {table}")
    statement = f"INSERT INTO {database}.copy SELECT * FROM {table}"
    lineage = sqlparser.get_openlineage_facets_with_sql(hook, statement, "chs3_default", None)
    host, port = hook.options.hosts[0]
    datasets = [(dataset.namespace, dataset.name) for dataset in (*lineage.inputs, *lineage.outputs)]
    assert datasets == [(f"clickhouse://{host}:{port}", name) for name in (table, f"{database}.copy")]


def test_lineage_takes_unqualified_names_as_of_the_connections_database(hook: ClickHouseHook) -> None:
    assert hook.get_openlineage_default_schema() == hook.options.database
