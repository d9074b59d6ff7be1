"""One statement at a time: its id, its comment, its settings and its errors, on a real cluster."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import airflow
import pytest

from airflow_provider_chs3 import __version__
from airflow_provider_chs3.client import connection, driver, server_errors
from airflow_provider_chs3.core.sql.quoting import literal, readable
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, ConfigurationError
from airflow_provider_chs3.hooks.running_task import airflow_log_comment
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import LOADER
from tests.support.server_errors import WITH_STACK_TRACE

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.testbed.nodes import Cluster, RunningNode

MakeHook = Callable[..., "ClickHouseHook"]
S3_KEY = "wJalrXUtnFEMI/K7MDENG"


def server_error(hook: ClickHouseHook, sql: str, **arguments: Any) -> ClickHouseServerError:
    with pytest.raises(ClickHouseServerError) as caught:
        hook.query(sql, **arguments)
    return caught.value


def test_a_server_that_would_answer_in_zstd_needs_no_zstd_here(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "clickhouse_driver.compression.zstd", raising=False)
    monkeypatch.setitem(sys.modules, "zstd", None)
    hook = make_hook(extra={"settings": {"network_compression_method": "ZSTD"}})
    assert hook.query("SELECT sum(number) FROM numbers(10)") == [(45,)]


def test_extremes_are_no_rows(make_hook: MakeHook) -> None:
    hook = make_hook(extra={"settings": {"extremes": 1}})
    assert hook.query("SELECT number FROM numbers(3)") == [(0,), (1,), (2,)]


def test_totals_come_last(make_hook: MakeHook) -> None:
    hook = make_hook(extra={"settings": {"extremes": 1}})
    sql = "SELECT number % 2 AS odd, count() FROM numbers(3) GROUP BY odd WITH TOTALS ORDER BY odd"
    assert hook.query(sql) == [(0, 2), (1, 1), (0, 3)]


def test_values_of_several_types_are_read(hook: ClickHouseHook) -> None:
    sql = "SELECT arrayJoin([1::Variant(UInt8, String, Array(String)), 'a', ['b', 'c'], NULL, 2, ''])"
    # The default since 26.1.
    assert hook.query(sql, settings={"use_variant_as_common_type": 1}) == [
        (1,),
        ("a",),
        (["b", "c"],),
        (None,),
        (2,),
        ("",),
    ]


def test_the_driver_stays_as_it_is_for_others_in_this_process() -> None:
    code = """
import logging
import clickhouse_driver.columns.service as service, clickhouse_driver.connection as connection
from clickhouse_driver.streams.native import BlockInputStream
def state():
    logger = logging.getLogger("clickhouse_driver.connection")
    functions = [vars(of) for of in (service, connection, connection.Connection, BlockInputStream)]
    return [dict(each) for each in functions], dict(service.column_by_type), logger.filters, logger.getEffectiveLevel()
before = state()
from airflow_provider_chs3.client import driver
assert state() == before and type(service.column_by_type) is dict
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_statement_without_a_result_gives_no_rows(hook: ClickHouseHook) -> None:
    assert hook.query("SET max_threads = 1") == []


def test_percent_signs_are_left_alone(hook: ClickHouseHook) -> None:
    assert hook.query("SELECT 'a%b' LIKE '%b', '%s', '%(x)s'") == [(1, "%s", "%(x)s")]


def test_every_statement_has_an_id_of_its_own_unless_it_is_given(hook: ClickHouseHook) -> None:
    first, second = (hook.query("SELECT queryID()")[0][0] for _ in range(2))
    assert uuid.UUID(first) != uuid.UUID(second)
    assert hook.query("SELECT queryID()", query_id="mine") == [("mine",)]


def test_the_query_log_knows_id_and_comment(hook: ClickHouseHook) -> None:
    query_id = str(uuid.uuid4())
    hook.query("SELECT 'look me up'", query_id=query_id, settings={"log_comment": '{"dag_id": "nightly"}'})
    hook.query("SYSTEM FLUSH LOGS")
    found = hook.query(f"SELECT DISTINCT log_comment, client_name FROM system.query_log WHERE query_id = '{query_id}'")
    assert found == [
        ('{"dag_id": "nightly"}', f"ClickHouse airflow-provider-chs3/{__version__} airflow/{airflow.__version__}")
    ]


def test_the_comment_is_set(hook: ClickHouseHook) -> None:
    assert hook.query("SELECT getSetting('log_comment')") == [(airflow_log_comment(),)]


def test_the_connections_settings_go_with_every_statement_whose_own_settings_win(make_hook: MakeHook) -> None:
    hook = make_hook(extra={"settings": {"max_threads": 3, "optimize_on_insert": False}})
    sql = "SELECT getSetting('max_threads'), getSetting('optimize_on_insert')"
    assert hook.query(sql) == [(3, False)]
    assert hook.query(sql, settings={"max_threads": 1}) == [(1, False)]


@pytest.mark.parametrize("value", [True, False])
def test_a_setting_that_the_driver_has_too_reaches_the_server(hook: ClickHouseHook, value: bool) -> None:
    name = "input_format_null_as_default"
    assert hook.query(f"SELECT getSetting('{name}')", settings={name: value}) == [(value,)]


def test_a_setting_that_the_server_does_not_know_fails(hook: ClickHouseHook) -> None:
    assert server_error(hook, "SELECT 1", settings={"max_treads": 1}).name == "UNKNOWN_SETTING"


def test_a_setting_whose_name_is_none_fails_before_anything_is_sent(hook: ClickHouseHook) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a setting"):
        hook.query("SELECT 1", settings={"a = 1, b": 1})


@pytest.mark.parametrize("compression", ["lz4", "zstd", "none"])
def test_data_passes_under_every_compression(make_hook: MakeHook, compression: str) -> None:
    hook = make_hook(extra={"compression": compression})
    assert len(hook.query("SELECT number FROM numbers(100000)")) == 100_000


def test_one_node_can_be_addressed(hook: ClickHouseHook, second_node: RunningNode) -> None:
    answer = hook.query("SELECT getMacro('replica')", address=(second_node.host, second_node.tcp_port))
    assert answer == [(second_node.name,)]


def test_a_dead_host_is_passed_over_and_logged_in_one_line(
    make_hook: MakeHook, closed_port: int, second_node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    hook = make_hook(
        host="127.0.0.1", port=closed_port, extra={"alt_hosts": f"{second_node.host}:{second_node.tcp_port}"}
    )
    assert hook.query("SELECT getMacro('replica')") == [(second_node.name,)]
    logged = [record for record in caplog.records if record.name == driver.__name__]
    assert [(record.getMessage(), record.exc_info) for record in logged] == [
        (f"Failed to connect to 127.0.0.1:{closed_port}: [Errno 111] Connection refused", None)
    ]


def test_a_servers_error_has_code_and_name(hook: ClickHouseHook) -> None:
    error = server_error(hook, "SELECT * FROM no_such_table", query_id="q1")
    assert (error.code, error.name, error.query_id) == (60, "UNKNOWN_TABLE", "q1")


def test_names_of_errors_are_the_servers_own(hook: ClickHouseHook) -> None:
    codes = "SELECT code, name FROM system.errors WHERE code IN (60, 81, 115, 241, 252, 497, 499, 516, 519, 1009)"
    rows = hook.query(codes, settings={"system_events_show_zero_values": 1})
    assert {code: server_errors.ERROR_NAMES[code] for code, _ in rows} == dict(rows)


def test_a_servers_error_comes_without_its_stack(hook: ClickHouseHook) -> None:
    error = server_error(hook, "SELECT throwIf(1, 'by hand')")
    assert error.message.startswith("by hand: while executing")


def test_a_servers_error_may_quote_bytes_that_are_no_text(hook: ClickHouseHook) -> None:
    error = server_error(hook, "SELECT toInt32(unhex('35fffe'))")
    assert (error.code, "string '5\N{REPLACEMENT CHARACTER}" in error.message) == (6, True)


def test_an_error_of_another_node_may_quote_bytes_that_are_no_text(hook: ClickHouseHook, chs3_cluster: Cluster) -> None:
    sql = f"SELECT toInt32(unhex('35fffe')) FROM clusterAllReplicas('{chs3_cluster.name}', system.one)"
    assert server_error(hook, sql).code == 6


@pytest.mark.parametrize(("before", "after"), [("ff", ""), ("", "fe"), ("c3", "ff")])
def test_a_secret_beside_bytes_that_are_no_text_is_hidden(hook: ClickHouseHook, before: str, after: str) -> None:
    sql = f"SELECT toInt32(concat(unhex('{before}'), '{S3_KEY}', unhex('{after}ff')))"
    error = server_error(hook, sql, secrets=[S3_KEY])
    assert S3_KEY[:8] not in "".join(traceback.format_exception(error))


def test_a_servers_error_names_the_node_that_answered(hook: ClickHouseHook, first_node: RunningNode) -> None:
    assert server_error(hook, "SELECT throwIf(1)").host == f"{first_node.host}:{first_node.tcp_port}"


def test_an_error_of_another_node_names_that_node(
    hook: ClickHouseHook, chs3_cluster: Cluster, second_node: RunningNode
) -> None:
    on_second = f"getMacro('replica') = '{second_node.name}'"
    sql = f"SELECT throwIf({on_second}) FROM clusterAllReplicas('{chs3_cluster.name}', system.one)"
    assert server_error(hook, sql).host == f"{second_node.host}:{second_node.tcp_port}"


def test_a_servers_error_survives_pickling(hook: ClickHouseHook) -> None:
    error = server_error(hook, "SELECT throwIf(1)")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT * FROM s3('http://127.0.0.1:1/b', 'AKIA', '{S3_KEY}'",
        f"SELCT '{S3_KEY}'",
        f"SELECT * FROM no_such_function('{S3_KEY}')",
        f"SELECT throwIf(1, '{S3_KEY}')",
        f"SELECT toUInt8('{S3_KEY[:-3]}')",
    ],
)
def test_a_secret_in_the_statement_is_not_in_the_traceback(hook: ClickHouseHook, sql: str) -> None:
    error = server_error(hook, sql, secrets=[S3_KEY])
    assert S3_KEY[:8] not in "".join(traceback.format_exception(error))


def test_the_password_is_in_no_message(hook: ClickHouseHook) -> None:
    literal = LOADER.password.replace("\\", "\\\\").replace("'", "\\'")
    assert LOADER.password[:8] not in str(server_error(hook, f"SELECT throwIf(1, '{literal}')"))


def test_the_driver_logs_no_statement(hook: ClickHouseHook, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        hook.query(f"SELECT '{S3_KEY}'")
    assert S3_KEY not in caplog.text


def test_a_host_that_does_not_answer_is_a_connection_error(make_hook: MakeHook, closed_port: int) -> None:
    with pytest.raises(ClickHouseConnectionError) as caught:
        make_hook(host="127.0.0.1", port=closed_port).query("SELECT 1")
    assert caught.value.host == f"127.0.0.1:{closed_port}"


@pytest.mark.thorough
def test_a_node_killed_in_mid_query_is_a_connection_error(make_hook: MakeHook) -> None:
    with ClickHouseCluster.start(nodes=1) as doomed:
        hook = make_hook(**doomed.airflow_connection())
        hook.query("SELECT 1")
        threading.Timer(0.5, doomed.kill, [0]).start()
        with pytest.raises(ClickHouseConnectionError, match="q1"):
            hook.query("SELECT sleepEachRow(1) FROM numbers(60)", query_id="q1", settings={"max_block_size": 1})


def test_a_silent_server_is_a_connection_error(hook: ClickHouseHook) -> None:
    with pytest.raises(ClickHouseConnectionError, match="q1"):
        hook.query(
            "SELECT sleepEachRow(3)",
            query_id="q1",
            settings={"interactive_delay": 10**8},
            send_receive_timeout_seconds=0.5,
        )


def test_a_time_limit_is_for_the_whole_answer_whatever_progress_it_makes(hook: ClickHouseHook) -> None:
    began = time.monotonic()
    with pytest.raises(ClickHouseConnectionError, match="timed out") as caught:
        hook.query(
            "SELECT sleepEachRow(0.2) FROM numbers(3000)",
            settings={"max_block_size": 1, "interactive_delay": 100_000},
            send_receive_timeout_seconds=1,
        )
    assert caught.value.is_timeout
    assert time.monotonic() - began < 300


def test_a_wrong_connection_is_told_before_anything_is_sent(make_hook: MakeHook) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'cluster'"):
        make_hook(extra={"clustr": "chs3"}).query("SELECT 1")


def test_a_certificate_that_is_not_there_is_told(make_hook: MakeHook) -> None:
    with pytest.raises(ConfigurationError, match="'ca_certs': there is no file '/no/ca'"):
        make_hook(extra={"secure": True, "ca_certs": "/no/ca"}).query("SELECT 1")


def test_a_compression_whose_library_is_not_installed_is_told(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="install the extra zstd of airflow-provider-chs3"):
        make_hook(extra={"compression": "zstd"}).query("SELECT 1")


def test_a_client_is_closed_at_the_end(hook: ClickHouseHook) -> None:
    with hook.client() as client:
        client.execute("SELECT 1")
    assert not client.connection.connected


def test_an_error_within_an_error_comes_without_stack_trace(make_hook: MakeHook, closed_port: int) -> None:
    # As a user who may read from everywhere. The error of a library comes with a stack trace of its own.
    hook = make_hook(extra={"connect_timeout_seconds": 30})
    account = (
        f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YWE=;BlobEndpoint=http://127.0.0.1:{closed_port}/a;"
    )
    error = server_error(hook, f"SELECT * FROM azureBlobStorage('{account}', 'c', 'x.csv', 'CSV', 'auto', 'a String')")
    assert "Connection refused" in error.message
    assert ("Stack trace" in error.message, "@ 0x" in error.message, "\n" in error.message) == (False, False, False)


@pytest.mark.parametrize("text", WITH_STACK_TRACE)
def test_servers_cut_a_stack_trace_off_as_this_package_does(hook: ClickHouseHook, text: str) -> None:
    assert hook.query(f"SELECT {readable(literal(WITH_STACK_TRACE[text]))}") == [(text,)]
