"""The reaction of a load to an error."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.load.retry_policy import (
    MAX_NEW_LISTS,
    MAX_WAITS,
    Reload,
    RetryState,
    lower_settings,
    next_retry,
    reload_of,
)
from airflow_provider_chs3.core.model.models import Setting, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.tuning.insert_settings import YOURS
from airflow_provider_chs3.exceptions import (
    ClickHouseConnectionError,
    ClickHouseServerError,
    ConfigurationError,
    FilesDifferError,
    ObjectsChangedError,
    SourceError,
    TransientError,
)

MIB = 1024**2
COMPUTED = (
    Setting("max_insert_threads", 4, "half of 8 cores"),
    Setting("min_insert_block_size_bytes", 512 * MIB, "memory"),
    Setting("min_insert_block_size_rows", 0, "bytes alone"),
    Setting("max_threads", 8, "all cores"),
    Setting("input_format_parquet_memory_high_watermark", 1024 * MIB, "an eighth"),
)


def server_error(code: int, message: str = "message", query_id: str = "chs3_1_2_insert1") -> ClickHouseServerError:
    return ClickHouseServerError(code, "NAME", message, "node:9000", query_id)


def values(settings: tuple[Setting, ...]) -> dict[str, object]:
    return {setting.name: setting.value for setting in settings}


@pytest.mark.parametrize(
    "error",
    [
        ObjectsChangedError("x"),
        server_error(1009),
        server_error(499, "The specified key does not exist"),
        server_error(499, "HTTP response code: 404"),
    ],
)
def test_objects_that_change_are_listed_again_a_few_times(error):
    retry_state = RetryState()
    for number in range(1, MAX_NEW_LISTS + 1):
        again = next_retry(error, retry_state)
        assert again.wait_seconds == 0
        assert f"{number} of {MAX_NEW_LISTS}" in again.reason
        retry_state = again.retry_state
    assert next_retry(error, retry_state) is None


POSTGRES = 'Try 2. Connection to `db:5432` failed with error: connection to server at "db", port 5432 failed: '
MYSQL = "Connections to mysql failed: trips@db:3306 as user loader, ERROR "


@pytest.mark.parametrize(
    ("code", "message", "waits"),
    [
        (614, f"{POSTGRES}Connection refused", True),
        (614, f"{POSTGRES}FATAL:  the database system is starting up", True),
        (614, f'{POSTGRES}FATAL:  password authentication failed for user "loader"', False),
        (614, f'{POSTGRES}FATAL:  database "trips" does not exist', False),
        (614, f'{POSTGRES}server certificate for "db" does not match host name "localhost"', False),
        (614, f'{POSTGRES}FATAL:  no pg_hba.conf entry for host "10.0.0.1"', False),
        (279, f"{MYSQL}2002 : mysqlxx::ConnectionFailed: Can't connect to server on 'db' (115)", True),
        (279, f"{MYSQL}1045 : mysqlxx::ConnectionFailed: Access denied for user 'loader'@'10.0.0.1'", False),
        (279, "All connection tries failed", False),
        (1001, "pqxx::broken_connection: Connection lost.", True),
        (1001, "pqxx::sql_error: Failure during '[END COPY]': FATAL:  terminating connection due to restart", True),
        (1001, 'pqxx::undefined_column: ERROR:  column "at" does not exist', False),
    ],
)
def test_a_load_waits_for_a_database_that_restarts_and_not_for_one_that_refuses(code, message, waits):
    again = next_retry(server_error(code, message), RetryState())
    assert (again is not None and again.wait_seconds > 0) == waits
    assert not waits or "the database did not answer" in again.reason


def test_files_that_differ_are_looked_at_first():
    again = next_retry(FilesDifferError("other types"), RetryState())
    assert (again.retry_state, again.wait_seconds) == (RetryState(files_differ=True), 0)
    assert again.retry_state != RetryState()


def test_too_little_memory_takes_less_of_it_at_once():
    again = next_retry(server_error(241, "Query memory limit exceeded"), RetryState())
    assert (again.retry_state.memory_steps, again.wait_seconds) == (1, 0)
    assert "node:9000" in again.reason


def test_too_little_memory_of_the_server_waits_for_what_others_hold_too():
    retry_state = RetryState()
    waited = []
    for _ in range(MAX_WAITS + 1):
        again = next_retry(server_error(241, "(total) memory limit exceeded"), retry_state)
        waited.append(again.wait_seconds)
        retry_state = again.retry_state
    assert waited == [20, 40, 60, 0]
    assert retry_state.memory_steps == MAX_WAITS + 1


def test_too_little_memory_for_another_statement_is_no_matter_of_the_insert():
    assert next_retry(server_error(241, "Query memory limit exceeded", "q1"), RetryState()) is None


def test_too_little_memory_of_the_server_for_another_statement_is_waited_for_and_then_told():
    retry_state, waited = RetryState(), []
    while again := next_retry(server_error(241, "(total) memory limit exceeded", "q1"), retry_state):
        waited.append(again.wait_seconds)
        retry_state = again.retry_state
    assert (waited, retry_state.memory_steps) == ([20, 40, 60], 0)


@pytest.mark.parametrize("code", [202, 203, 252])
def test_a_server_that_is_full_is_waited_for_longer_each_time(code):
    retry_state, waited = RetryState(), []
    while again := next_retry(server_error(code, "Too many parts (3000)"), retry_state):
        waited.append(again.wait_seconds)
        retry_state = again.retry_state
    assert waited == [20, 40, 60]
    assert retry_state == RetryState(waits=MAX_WAITS)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (499, "HTTP response code: 503: SlowDown"),
        (1000, "Malformed message: Unexpected EOF"),
        (636, "The structure cannot be extracted: Poco::Exception. Code: 1000, e.code() = 0"),
    ],
)
def test_a_storage_that_does_not_keep_up_is_read_with_fewer_threads(code, message):
    again = next_retry(server_error(code, message), RetryState())
    assert again.retry_state == RetryState(waits=1, reader_steps=1)
    assert values(lower_settings(COMPUTED, again.retry_state)) == values(COMPUTED) | {"max_threads": 4}


@pytest.mark.parametrize(
    "error",
    [
        SourceError("x"),
        TransientError("x"),
        ClickHouseConnectionError("x", "node:9000"),
        server_error(60),
        server_error(394),
        server_error(210),
        server_error(499, "HTTP response code: 403"),
        server_error(252, "Too many partitions for single INSERT block (more than 100)"),
    ],
)
def test_nothing_else_is_tried_again_by_the_load_itself(error):
    assert next_retry(error, RetryState()) is None


def test_memory_is_lowered_by_block_then_insert_threads_then_reading():
    steps = [values(lower_settings(COMPUTED, RetryState(memory_steps=steps))) for steps in range(5)]
    block, threads, readers = "min_insert_block_size_bytes", "max_insert_threads", "max_threads"
    assert [(step[block] // MIB, step[threads], step[readers]) for step in steps] == [
        (512, 4, 8),
        (256, 4, 8),
        (256, 2, 8),
        (256, 2, 4),
        (128, 2, 4),
    ]
    # No limit by rows, as before; and the Parquet reader goes with the readers.
    assert steps[3]["min_insert_block_size_rows"] == 0
    assert steps[3]["input_format_parquet_memory_high_watermark"] == 512 * MIB


def test_the_server_s_own_block_is_halved_where_none_was_computed():
    given = values(lower_settings((Setting("max_insert_threads", 2, ""),), RetryState(memory_steps=1)))
    assert given["min_insert_block_size_bytes"] == 128 * MIB
    assert given["min_insert_block_size_rows"] == 524_224


def test_what_a_user_gave_stays():
    own = (Setting("min_insert_block_size_bytes", 512 * MIB, YOURS), Setting("min_insert_block_size_rows", 0, YOURS))
    retry_state = RetryState(memory_steps=1)
    assert values(lower_settings((*own, Setting("max_insert_threads", 4, "")), retry_state))["max_insert_threads"] == 2


def test_the_reason_tells_what_it_was_and_why():
    (block, *_) = [
        each for each in lower_settings(COMPUTED, RetryState(memory_steps=1)) if "block_size_bytes" in each.name
    ]
    assert block.reason == "half of 536870912, as an earlier try ran out of memory"


def test_when_nothing_is_left_to_lower_the_error_says_what_to_do():
    with pytest.raises(TransientError, match=r"allow loads more memory .* The rows of this insert were not published"):
        lower_settings(COMPUTED, RetryState(memory_steps=100))


@pytest.mark.parametrize(
    ("reason", "way_out"),
    [("", "allow loads more"), (YOURS, "raise max_memory_usage, which the load's own settings limit to 8000000")],
)
def test_where_nothing_is_left_to_lower_the_way_out_is_what_limits_the_load(reason: str, way_out: str) -> None:
    settings = (Setting("max_insert_threads", 1, ""), Setting("max_memory_usage", 8_000_000, reason))
    with pytest.raises(TransientError, match=way_out):
        lower_settings(settings, RetryState(memory_steps=20))


OCTOBER = Period.of_month(2026, 10)
ASKED = {"database": "d", "table": "t", "periods": ["2026-10"]}


@pytest.mark.parametrize("conf", [None, {}, {"periods": ["2026-10"]}])
def test_a_conf_may_ask_for_nothing(conf):
    assert reload_of(conf) is None


@pytest.mark.parametrize(
    "conf",
    [
        {"chs3_relod": ASKED},
        {"chs3_reload ": ASKED},
        {"CHS3_RELOAD": ASKED},
        {"chs3-reload": ASKED},
        {"chs3": {"reload": ASKED}},
        {"chs3_period": "2026-10"},
        {"ch3_reload": ASKED},
        {"chs3_reload": ASKED, "chs3_replace_rows_of_others": True},
    ],
)
def test_a_key_that_is_nearly_ours_is_refused_with_the_one_that_there_is(conf):
    with pytest.raises(ConfigurationError, match=r"conf has '.*', which has no meaning.* only key is chs3_reload, wh"):
        reload_of(conf)


@pytest.mark.parametrize(
    "conf", [{"reload": True}, {"reload": {"cache": 1}}, {"clickhouse": {}}, {"s3_reload": "yes"}, {"periods_ch": {}}]
)
def test_keys_of_others_are_left_alone(conf):
    assert reload_of(conf) is None
    assert reload_of(conf | {"chs3_reload": ASKED}) is not None


def test_it_names_the_table_and_the_periods():
    asked = reload_of({"chs3_reload": {**ASKED, "periods": ["2026-10", "2026-09"]}})
    assert asked == Reload(target=TableName("d", "t"), periods=(Period.of_month(2026, 9), OCTOBER))


@pytest.mark.parametrize("name", ["replace_rows_of_others", "allow_shrink", "approve"])
def test_more_is_allowed_only_if_it_says_so(name):
    assert [getattr(reload_of({"chs3_reload": ASKED | more}), name) for more in ({}, {name: False}, {name: True})] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "asked",
    [
        "2026-10",
        {"table": "t", "periods": ["2026-10"]},
        ASKED | {"periods": []},
        ASKED | {"periods": [10]},
        ASKED | {"table": ["t"]},
        ASKED | {"replace_rows_of_others": "no"},
        ASKED | {"replace_rows_of_others": 1},
        ASKED | {"allow_shrink": "true"},
        ASKED | {"force": True},
    ],
)
def test_what_is_asked_wrongly_is_refused_with_an_example(asked):
    with pytest.raises(ConfigurationError, match=r'has chs3_reload=.*which takes .*such as \{"chs3_reload": '):
        reload_of({"chs3_reload": asked})


def test_what_is_no_period_is_refused():
    with pytest.raises(ConfigurationError, match="'2026-13' is not a period"):
        reload_of({"chs3_reload": ASKED | {"periods": ["2026-13"]}})
