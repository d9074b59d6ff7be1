"""`ClickHouseHook.execute`: statements with parameters, rows and external tables."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from airflow_provider_chs3.core.model.error_codes import is_terminal
from airflow_provider_chs3.core.sql.quoting import identifier
from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError, RowError
from airflow_provider_chs3.hooks.running_task import airflow_log_comment

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

NOON = datetime(2026, 1, 2, 12, 0, 0, 678901)
BERLIN = timezone(timedelta(hours=1))


@pytest.fixture
def table(hook: ClickHouseHook, chs3_database: str) -> str:
    name = f"{chs3_database}.trips"
    hook.query(f"CREATE TABLE {name} (id UInt32, day Date) ENGINE = MergeTree ORDER BY id")
    return name


def test_the_last_statements_rows_are_returned(hook: ClickHouseHook) -> None:
    assert hook.execute(["SELECT 1", "SELECT number FROM numbers(2)"]) == [(0,), (1,)]


def test_statements_share_a_session(hook: ClickHouseHook) -> None:
    statements = ["CREATE TEMPORARY TABLE mine (x UInt8)", "INSERT INTO mine VALUES (7)", "SELECT x FROM mine"]
    assert hook.execute(statements) == [(7,)]


@pytest.mark.parametrize("sql", ["", "  ", [], ["SELECT 1", ""], [7], None, 7])
def test_no_statement_is_told(hook: ClickHouseHook, sql: Any) -> None:
    with pytest.raises(ConfigurationError, match="pass a statement, or a list of statements"):
        hook.execute(sql)


@pytest.mark.parametrize("sql", ["SELECT %(a)s, '100%'", "SELECT {a:String}, '100%'"])
def test_a_mapping_fills_placeholders(hook: ClickHouseHook, sql: str) -> None:
    assert hook.execute(sql, {"a": "it's \\ %(b)s {c:UInt8}\n", "unused": 1}) == [
        ("it's \\ %(b)s {c:UInt8}\n", "100%"),
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Nullable(String)", None),
        ("String", "NULL"),
        ("String", r"\N"),
        ("Bool", True),
        ("UInt8", True),
        ("Int256", -(2**200)),
        ("Decimal(38, 10)", Decimal("12345678901234567.0123456789")),
        ("Date", date(2026, 1, 2)),
        ("UUID", UUID(int=5)),
        ("Array(Nullable(String))", ["a'b", "c\\d", "\n", None]),
        ("Tuple(UInt8, String)", (1, "a'b")),
        ("Tuple(Float64)", (1.5,)),
        ("Map(String, Array(Date))", {"it's": [date(2026, 1, 2)], "\\": []}),
        ("Array(Tuple(UUID, Decimal(10, 2), Bool))", [(UUID(int=5), Decimal("1.50"), True)]),
    ],
)
def test_the_server_gets_a_parameters_value(hook: ClickHouseHook, kind: str, value: Any) -> None:
    assert hook.execute(f"SELECT {{a:{kind}}}", {"a": value}) == [(value,)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize(
    "moment",
    [
        NOON.replace(tzinfo=BERLIN),
        NOON.replace(tzinfo=UTC, microsecond=0),
        datetime(1950, 6, 1, 1, 2, 3, 4, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
    ],
)
def test_a_time_with_a_zone_is_the_same_moment_in_any_other(hook: ClickHouseHook, zone: str, moment: datetime) -> None:
    ((alone, (of_list,)),) = hook.execute(
        f"SELECT {{a:DateTime64(6, '{zone}')}}, {{b:Array(DateTime64(6, '{zone}'))}}", {"a": moment, "b": [moment]}
    )
    assert (alone, of_list) == (moment, moment)


def test_a_time_without_a_zone_is_of_the_placeholders(hook: ClickHouseHook) -> None:
    ((found,),) = hook.execute("SELECT {a:DateTime64(6, 'Europe/Berlin')}", {"a": NOON})
    assert found.replace(tzinfo=None) == NOON


@pytest.mark.parametrize("kind", ["{a:String}", "%(a)s", "{b:Array(String)}[1]", "%(b)s[1]"])
def test_bytes_are_sent_as_they_are(hook: ClickHouseHook, kind: str) -> None:
    value = bytes(range(256))
    assert hook.execute(f"SELECT hex({kind}) AS sent", {"a": value, "b": [value]}) == [(value.hex().upper(),)]


@pytest.mark.parametrize("name", ["it's", "a\\b", "back`tick", "tab\there", r"\N"])
def test_any_name_can_be_a_parameter(hook: ClickHouseHook, name: str) -> None:
    assert hook.execute(f"SELECT {{a:Identifier}} FROM (SELECT 7 AS {identifier(name)})", {"a": name}) == [(7,)]


def test_a_parameter_that_no_retry_makes_good_is_a_terminal_error(hook: ClickHouseHook) -> None:
    for given in ({}, {"a": "x"}):
        with pytest.raises(ClickHouseServerError) as caught:
            hook.execute("SELECT {a:UInt8}", given)
        assert is_terminal(caught.value)


def test_a_table_can_be_a_parameter(hook: ClickHouseHook, table: str) -> None:
    database, name = table.split(".")
    assert hook.execute("SELECT count() FROM {d:Identifier}.{t:Identifier}", {"d": database, "t": name}) == [(0,)]


@pytest.mark.parametrize(
    ("sql", "parameters", "told"),
    [
        ("SELECT {a:UInt8}, %(b)s", {"a": 1, "b": 2}, r"has \{a:…\} and %\(b\)s: use one kind of placeholder"),
        ("SELECT %(a)s", {"b": 1}, r"has %\(a\)s, but no parameter has that name"),
        ("SELECT 1", [(1,)], "parameters is a list, but the statement is not an INSERT"),
        ("SELECT 1", "x", "parameters is a str: pass a mapping, or a list of rows"),
    ],
)
def test_parameters_that_do_not_fit_are_told_before_anything_runs(
    hook: ClickHouseHook, table: str, sql: str, parameters: Any, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        hook.execute([f"INSERT INTO {table} SELECT 1, today()", sql], parameters)
    assert hook.query(f"SELECT count() FROM {table}") == [(0,)]


_DAYS = (date(2026, 1, 2), date(2026, 1, 3))


@pytest.mark.parametrize("row", [lambda number, day: (number, day), lambda number, day: {"day": day, "id": number}])
@pytest.mark.parametrize(("kind", "end"), [(list, ""), (tuple, ";"), (iter, " ;\n")])
def test_a_list_is_the_rows_of_an_insert(hook: ClickHouseHook, table: str, row: Any, kind: Any, end: str) -> None:
    rows = [*enumerate(_DAYS)]
    assert hook.execute(f"INSERT INTO {table} (id, day) VALUES{end}", kind([row(*each) for each in rows])) == 2
    assert hook.query(f"SELECT id, day FROM {table} ORDER BY id") == rows


def test_columns_are_inserted_as_such(hook: ClickHouseHook, table: str) -> None:
    assert hook.execute(f"INSERT INTO {table} VALUES", [[1, 2, 3], [date(2026, 1, 2)] * 3], columnar=True) == 3
    assert hook.query(f"SELECT sum(id) FROM {table}") == [(6,)]


def test_a_row_that_does_not_fit_is_named(hook: ClickHouseHook, table: str) -> None:
    with pytest.raises(RowError, match="Row 2 cannot be inserted: 'today'"):
        hook.execute(f"INSERT INTO {table} VALUES", [(1, date(2026, 1, 2)), (2, "today")])


def test_columns_and_types_are_returned_if_asked(hook: ClickHouseHook) -> None:
    sql = "SELECT number AS n, 'x' AS s FROM numbers(2)"
    types = [("n", "UInt64"), ("s", "String")]
    assert hook.execute(sql, with_column_types=True) == ([(0, "x"), (1, "x")], types)
    assert hook.execute(sql, with_column_types=True, columnar=True) == ([(0, 1), ("x", "x")], types)


@pytest.mark.parametrize("data", [[{"id": 7}, {"id": 8}], [(7,), [8]]])
def test_external_tables_go_with_every_statement(hook: ClickHouseHook, table: str, data: list[Any]) -> None:
    ids = {"name": "ids", "structure": [("id", "UInt32")], "data": data}
    found = hook.execute(
        [f"INSERT INTO {table} SELECT id, today() FROM ids", f"SELECT count() FROM {table} WHERE id IN ids"],
        external_tables=[ids],
    )
    assert found == [(2,)]


@pytest.mark.parametrize(
    "change",
    [{"name": ""}, {"structure": []}, {"structure": ["id"]}, {"data": [(7, 8)]}, {"data": [{"di": 7}]}, {"data": 7}],
)
def test_an_external_table_that_is_none_is_told(hook: ClickHouseHook, change: dict[str, Any]) -> None:
    ids = {"name": "ids", "structure": [("id", "UInt32")], "data": [(7,)], **change}
    with pytest.raises(ConfigurationError, match="external_tables: pass a list of tables"):
        hook.execute("SELECT * FROM ids", external_tables=[ids])


def test_a_value_of_an_external_table_that_does_not_fit_is_told(hook: ClickHouseHook) -> None:
    ids = {"name": "ids", "structure": [("id", "UInt32")], "data": [(7,), ("x",)]}
    with pytest.raises(ConfigurationError, match=r"external_tables, 'ids': row 2: 'x'.* is no value for column 'id'"):
        hook.execute("SELECT * FROM ids", external_tables=[ids])


def test_statements_have_the_id_that_is_given(hook: ClickHouseHook) -> None:
    assert hook.execute(["SELECT 1", "SELECT queryID()"], query_id="mine") == [("mine",)]


def test_the_log_has_the_id_of_each_statement_and_not_its_text(
    hook: ClickHouseHook, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        ((query_id,),) = hook.execute(["SELECT 'a secret'", "SELECT queryID()"])
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Query id: ")]
    assert len(set(told)) == 2
    assert told[-1] == f"Query id: {query_id}"
    assert "a secret" not in caplog.text


def test_settings_and_comment_go_with_every_statement(hook: ClickHouseHook) -> None:
    sql = "SELECT getSetting('max_threads'), getSetting('log_comment')"
    assert hook.execute(sql, settings={"max_threads": 3}) == [(3, airflow_log_comment())]
    assert hook.execute(sql, settings={"max_threads": 3, "log_comment": "mine"}) == [(3, "mine")]


def test_the_users_profile_stays_in_force(hook: ClickHouseHook) -> None:
    assert hook.execute(["SET limit = 1", "SELECT number FROM numbers(2)"]) == [(0,)]


def test_a_servers_error_is_told_without_stack_trace(hook: ClickHouseHook) -> None:
    with pytest.raises(ClickHouseServerError) as caught:
        hook.execute("SELECT * FROM no_such_table", query_id="q7")
    assert (caught.value.name, caught.value.query_id) == ("UNKNOWN_TABLE", "q7")
    assert "Stack trace" not in str(caught.value)


@pytest.mark.newer("type Time64")
def test_a_type_that_the_driver_does_not_know_is_told(hook: ClickHouseHook) -> None:
    sql = "SELECT toTime64('12:00:01.5', 3) SETTINGS enable_time_time64_type = 1"
    with pytest.raises(ConfigurationError, match=r"Time64\(3\): the driver cannot read or send values of this type"):
        hook.execute(sql)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT '\ud800'", None),
        ("SELECT %(x)s", {"x": "\ud800"}),
        ("SELECT {x:String}", {"x": "\ud800"}),
        ("SELECT {x:Array(String)}", {"x": ["\ud800"]}),
    ],
)
def test_half_a_character_is_told(hook: ClickHouseHook, sql: str, parameters: Any) -> None:
    with pytest.raises(ConfigurationError, match="is half a character"):
        hook.execute(sql, parameters)
    assert hook.execute("SELECT 1") == [(1,)]


def test_cancel_does_nothing_if_nothing_runs(hook: ClickHouseHook) -> None:
    hook.execute("SELECT 1")
    hook.cancel()
