"""The DB-API connection: parameters, rows, results and what the server's log says of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.client.parameters import bind
from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError
from airflow_provider_chs3.hooks.running_task import airflow_log_comment

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


@pytest.fixture
def cursor(hook: ClickHouseHook) -> Iterator[Any]:
    with closing(hook.get_conn()) as connection:
        yield connection.cursor()


@pytest.fixture
def table(hook: ClickHouseHook, chs3_database: str) -> str:
    name = f"{chs3_database}.trips"
    hook.query(f"CREATE TABLE {name} (id UInt32, name String, day Nullable(Date)) ENGINE = MergeTree ORDER BY id")
    return name


@pytest.mark.parametrize(
    ("statement", "parameters", "bound"),
    [
        ("SELECT '%'", None, ("SELECT '%'", None)),
        ("SELECT '%s'", (), ("SELECT '%s'", None)),
        ("SELECT %s, %s", ("a", 1), ("SELECT %(0)s, %(1)s", {"0": "a", "1": 1})),
        ("SELECT %(a)s, %(a)s", {"a": 1}, ("SELECT %(a)s, %(a)s", {"a": 1})),
        ("LIKE '%x' AND %s", [1], ("LIKE '%%x' AND %(0)s", {"0": 1})),
        ("LIKE '%%x' AND %s", [1], ("LIKE '%%x' AND %(0)s", {"0": 1})),
        ("f('%s') = %(a)s", {"a": 1}, ("f('%%s') = %(a)s", {"a": 1})),
        ("100%", {"a": 1}, ("100%%", {"a": 1})),
    ],
)
def test_placeholders_are_told_from_percent_signs(statement: str, parameters: Any, bound: Any) -> None:
    assert bind(statement, parameters) == bound


@pytest.mark.parametrize(
    ("statement", "parameters", "told"),
    [
        ("SELECT %s, %s", [1], "2 placeholders (%s) for 1 parameters"),
        ("SELECT 1", [1], "0 placeholders (%s) for 1 parameters"),
        ("SELECT %(a)s", {"b": 1}, "%(a)s, but no parameter has that name"),
    ],
)
def test_parameters_that_do_not_fit_are_told(statement: str, parameters: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        bind(statement, parameters)
    assert told in str(caught.value)


@pytest.mark.parametrize("value", ["it's", "back\\slash", "%s", "%(x)s", "'; DROP TABLE y; --", "ü\n\t", 7, None])
def test_a_parameter_arrives_as_it_is(cursor: Any, value: Any) -> None:
    cursor.execute("SELECT %s", [value])
    assert cursor.fetchone() == (value,)


def test_extremes_are_no_rows(make_hook: Callable[..., ClickHouseHook]) -> None:
    hook = make_hook(extra={"settings": {"extremes": 1}})
    with closing(hook.get_conn()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT number FROM numbers(3)")
        assert (cursor.fetchall(), cursor.rowcount) == ([(0,), (1,), (2,)], 3)


def test_extremes_are_no_rows_of_a_stream(make_hook: Callable[..., ClickHouseHook]) -> None:
    hook = make_hook(extra={"settings": {"extremes": 1}})
    with closing(hook.get_conn()) as connection, closing(connection.cursor()) as cursor:
        cursor.set_stream_results(True, max_row_buffer=1)
        cursor.execute("SELECT number FROM numbers(3)")
        assert cursor.fetchall() == [(0,), (1,), (2,)]


def test_parameters_may_have_names(cursor: Any) -> None:
    cursor.execute("SELECT %(day)s::Date, '50%'", {"day": date(2026, 10, 1)})
    assert cursor.fetchall() == [(date(2026, 10, 1), "50%")]


def test_a_time_is_taken_in_the_servers_zone(cursor: Any) -> None:
    cursor.execute("SELECT toDateTime(%s)", [datetime(2026, 10, 1, 12, 30)])
    assert cursor.fetchone() == (datetime(2026, 10, 1, 12, 30),)


def test_columns_are_described(cursor: Any) -> None:
    cursor.execute("SELECT 1 AS a, 'x' AS b WHERE 0")
    assert [(column.name, column.type_code) for column in cursor.description] == [("a", "UInt8"), ("b", "String")]


def test_a_statement_without_a_result_has_no_description(cursor: Any) -> None:
    cursor.execute("SELECT 1")
    cursor.execute("SET max_threads = 1")
    assert (cursor.description, cursor.rowcount) == (None, -1)


def test_a_cursor_is_a_session(cursor: Any) -> None:
    cursor.execute("SET max_threads = 1")
    cursor.execute("SELECT getSetting('max_threads')")
    assert cursor.fetchone() == (1,)


def test_rows_are_inserted_with_their_types(cursor: Any, table: str) -> None:
    rows = [(1, "a;%s'", date(2026, 10, 1)), (2, "b", None)]
    cursor.executemany(f"INSERT INTO {table} (id, name, day) VALUES (%s, %s,%s);", rows)
    cursor.execute(f"SELECT * FROM {table} ORDER BY id")
    assert cursor.fetchall() == rows


def test_inserted_rows_are_counted(cursor: Any, table: str) -> None:
    cursor.executemany(f"INSERT INTO {table} (id, name) VALUES", [(1, "a"), (2, "b")])
    assert cursor.rowcount == 2


def test_rows_by_name_go_where_the_statement_says(cursor: Any, table: str) -> None:
    cursor.executemany(f"INSERT INTO {table} (name, id) VALUES (%(x)s, %(y)s)", [{"y": 1, "x": "a"}])
    cursor.execute(f"SELECT id, name FROM {table}")
    assert cursor.fetchall() == [(1, "a")]


def test_rows_with_expressions_go_one_by_one(cursor: Any, table: str) -> None:
    cursor.executemany(f"INSERT INTO {table} (id, name) VALUES (%s + 10, lower(%s))", [(1, "A"), (2, "B")])
    cursor.execute(f"SELECT id, name FROM {table} ORDER BY id")
    assert cursor.fetchall() == [(11, "a"), (12, "b")]


def test_one_row_can_be_inserted_by_execute(cursor: Any, table: str) -> None:
    cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)", (1, "a", None))
    cursor.execute(f"SELECT * FROM {table}")
    assert cursor.fetchall() == [(1, "a", None)]


def test_every_statement_has_an_id_of_its_own(cursor: Any) -> None:
    ids = set()
    for _ in range(2):
        cursor.execute("SELECT queryID()")
        ids.add(cursor.fetchone())
    assert len(ids) == 2


def test_the_id_is_logged(cursor: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        cursor.execute("SELECT queryID()")
    assert cursor.fetchone()[0] in caplog.text


def test_the_comment_goes_along(cursor: Any) -> None:
    cursor.execute("SELECT getSetting('log_comment')")
    assert cursor.fetchone() == (airflow_log_comment(),)


def test_an_error_is_the_servers_without_its_stack(cursor: Any) -> None:
    with pytest.raises(ClickHouseServerError) as caught:
        cursor.execute("SELECT throwIf(1, 'by hand')")
    assert caught.value.message.startswith("by hand: while")


def test_an_error_while_rows_are_inserted_is_the_servers(cursor: Any) -> None:
    with pytest.raises(ClickHouseServerError) as caught:
        cursor.executemany("INSERT INTO no_such_table VALUES (%s)", [(1,)])
    assert caught.value.code == 60


def test_closing_the_connection_closes_all_its_cursors(hook: ClickHouseHook) -> None:
    connection = hook.get_conn()
    cursors = [connection.cursor() for _ in range(3)]
    for cursor in cursors:
        cursor.execute("SELECT 1")
    connection.close()
    assert [cursor._client.connection.connected for cursor in cursors] == [False] * 3
