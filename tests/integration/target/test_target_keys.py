"""Partition keys of other time zones and types: the period in the table is the key's period."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from tests.support.lake import IS_OLDEST, PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.refusal import refused

#: What `PERIOD` begins and ends with in New York, and the seconds before and after it, in UTC.
NEW_YORK = {
    1: "2026-10-01 03:59:59",
    2: "2026-10-01 04:00:00",
    3: "2026-11-01 03:59:59",
    4: "2026-11-01 04:00:00",
}
IN_NEW_YORK = [
    ("DateTime('UTC')", "toYYYYMM(at, 'America/New_York')"),
    ("DateTime64(3, 'Asia/Tokyo')", "toYYYYMM(at, 'America/New_York')"),
    ("DateTime('UTC')", "toYYYYMM(toTimeZone(at, 'America/New_York'))"),
    ("DateTime('UTC')", "toStartOfMonth(at, 'America/New_York')"),
    ("Nullable(DateTime('UTC'))", "toStartOfMonth(at, 'America/New_York')"),
    ("DateTime('UTC')", "date_trunc('month', at, 'America/New_York')"),
    ("DateTime('UTC')", "(toYear(at, 'America/New_York'), toMonth(at, 'America/New_York'))"),
    ("DateTime('UTC')", "tuple(toYYYYMM(at, 'America/New_York'))"),
    ("DateTime('UTC')", "tuple(toYear(at, 'America/New_York'), toMonth(at, 'America/New_York'))"),
    ("DateTime('UTC')", "formatDateTime(at, '%Y%m', 'America/New_York')"),
    ("DateTime('UTC')", "toYYYYMM(toTimeZone(toTimeZone(at, 'Asia/Tokyo'), 'America/New_York'))"),
    ("DateTime('America/New_York')", "toYYYYMM(at)"),
]


def create(lake: Lake, column_type: str, key: str, settings: str = "index_granularity = 8192") -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (id UInt32, at {column_type}) "
        f"ENGINE = MergeTree PARTITION BY {key} ORDER BY id SETTINGS {settings}, allow_nullable_key = 1"
    )


def put(lake: Lake, rows: dict[int, str]) -> None:
    """Objects of one row each, with instants in UTC."""
    for number, at in rows.items():
        lake.put(f"trips/{PERIOD}/{number}.jsonl", f'{{"id": {number}, "at": {at}}}'.encode())


def in_utc(rows: dict[int, str], *wanted: int) -> dict[int, str]:
    return {number: f'"{rows[number].replace(" ", "T")}Z"' for number in wanted}


def ids(lake: Lake) -> list[tuple[int, datetime | None]]:
    rows = lake.on_every_node(f"SELECT id, toTimeZone(at, 'UTC') FROM {lake.database}.trips")
    return sorted(row for of_node in rows for row in of_node)


def numbers(lake: Lake) -> list[int]:
    rows = lake.on_every_node(f"SELECT id FROM {lake.database}.trips")
    return sorted(number for of_node in rows for (number,) in of_node)


def at(number: int) -> tuple[int, datetime]:
    return number, datetime.fromisoformat(NEW_YORK[number]).replace(tzinfo=UTC)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("column_type", "key"), IN_NEW_YORK)
def test_a_period_ends_where_the_time_zone_of_the_key_says(lake: Lake, column_type: str, key: str) -> None:
    create(lake, column_type, key)
    put(lake, in_utc(NEW_YORK, 2, 3))
    settings = {"date_time_input_format": "best_effort"}
    result = lake.load(settings=settings)
    assert (result["status"], result["rows"], ids(lake)) == ("published", 2, [at(2), at(3)])
    assert lake.load(settings=settings)["status"] == "unchanged"
    # A second before and after it are of other periods.
    put(lake, in_utc(NEW_YORK, 1, 4))
    said = r"rows of other periods (?=.*2026\D{0,2}0?9\S*: 1\b)(?=.*2026\D{0,2}11\S*: 1\b)"
    with pytest.raises(AirflowFailException, match=said):
        lake.load(settings=settings)
    assert lake.load(on_other_periods="leave_out", settings=settings)["status"] == "published"
    assert ids(lake) == [at(2), at(3)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column_type", "key"),
    [
        ("Nullable(DateTime64(3, 'UTC'))", "toYYYYMM(at)"),
        ("Nullable(Date)", "toStartOfMonth(at)"),
        ("Nullable(Date32)", "(toYear(at), toStartOfMonth(at))"),
        ("Nullable(DateTime('UTC'))", "date_trunc('month', at)"),
    ],
)
def test_rows_without_a_period_are_of_other_periods(lake: Lake, column_type: str, key: str) -> None:
    create(lake, column_type, key)
    put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"', 3: "null"})
    refused(lake, r"hold rows of other periods \(partition: rows\): \(?NULL(,NULL\))?: 1\.")
    result = lake.load(on_other_periods="leave_out")
    assert (result["rows"], numbers(lake)) == (2, [1, 2])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column_type", "key"),
    [
        ("LowCardinality(DateTime('UTC'))", "toYYYYMM(at)"),
        ("LowCardinality(Date)", "toStartOfMonth(at)"),
        ("LowCardinality(Nullable(Date))", "toStartOfMonth(at)"),
    ],
)
def test_a_key_of_low_cardinality_is_monthly_too(lake: Lake, column_type: str, key: str) -> None:
    for node in lake.cluster.nodes:
        with node.client(settings={"allow_suspicious_low_cardinality_types": 1}) as client:
            client.execute(
                f"CREATE TABLE {lake.database}.trips (id UInt32, at {column_type}) ENGINE = MergeTree "
                f"PARTITION BY {key} ORDER BY id SETTINGS allow_nullable_key = 1"
            )
    put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"'})
    lake.load()
    assert (numbers(lake), lake.load()["status"]) == ([1, 2], "unchanged")


@pytest.mark.thorough
def test_a_key_that_is_monthly_in_no_time_zone_is_refused(lake: Lake) -> None:
    create(lake, "DateTime('UTC')", "toYYYYMMDD(at, 'America/New_York')")
    put(lake, in_utc(NEW_YORK, 2))
    refused(lake, "is not partitioned by month .* 2026-10 falls into 31 partitions")


EXTENDED = {"enable_extended_results_for_datetime_functions": 1}
#: Type, key, settings under which that key is of another type, or has another value.
OF_SETTINGS = [
    ("DateTime64(3, 'UTC')", "toStartOfMonth(at)", EXTENDED),
    ("Date32", "toStartOfMonth(at)", EXTENDED),
    ("Nullable(DateTime64(3, 'UTC'))", "tuple(toStartOfMonth(at))", EXTENDED),
    ("DateTime64(3, 'UTC')", "dateTrunc('month', at)", {"function_date_trunc_return_type_behavior": 1}),
    (
        "DateTime('UTC')",
        "(toYear(at), formatDateTime(at, '%M'))",
        {"formatdatetime_parsedatetime_m_is_month_name": 0},
    ),
]


def set_for_loads(lake: Lake, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, int]) -> None:
    """The connection has these settings from now on."""
    connection = lake.cluster.airflow_connection()
    connection["extra"] = {**connection["extra"], "settings": settings}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


@pytest.mark.thorough
@pytest.mark.parametrize(("column_type", "key", "settings"), OF_SETTINGS)
def test_settings_of_a_session_do_not_decide_which_partition_is_the_month(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, column_type: str, key: str, settings: Mapping[str, int]
) -> None:
    if IS_OLDEST and "function_date_trunc_return_type_behavior" in settings:
        pytest.skip("these servers do not know the setting")
    create(lake, column_type, key)
    put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"', 3: '"2026-09-30"'})
    set_for_loads(lake, monkeypatch, settings)
    lake.load(on_other_periods="leave_out")
    assert numbers(lake) == [1, 2]
    set_for_loads(lake, monkeypatch, {})
    assert lake.load(on_other_periods="leave_out")["status"] == "unchanged"


@pytest.mark.thorough
def test_settings_of_the_operator_do_not_either(lake: Lake) -> None:
    create(lake, "DateTime64(3, 'UTC')", "toStartOfMonth(at)")
    put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"'})
    lake.load(settings=EXTENDED)
    assert numbers(lake) == [1, 2]


@pytest.mark.thorough
def test_the_profile_with_which_the_server_started_decides(
    request: pytest.FixtureRequest, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.config.getoption("--chs3-clickhouse") != "engine":
        pytest.skip("the settings of other servers are as they are")
    collections = {S3_NAMED_COLLECTION: chs3_s3.named_collection()}
    with (
        ClickHouseCluster.start(
            1, named_collections=collections, user_settings=EXTENDED, **WITH_NARROW_USER
        ) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        create(lake, "DateTime64(3, 'UTC')", "toStartOfMonth(at)")
        put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"', 3: '"2026-09-30"'})
        lake.load(on_other_periods="leave_out")
        assert numbers(lake) == [1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["ADD COLUMN note Nullable(String)", "ADD INDEX i id TYPE minmax"])
@pytest.mark.parametrize(
    ("column_type", "key", "setting"),
    [
        ("Nullable(DateTime('UTC'))", "toYYYYMM(CAST(at AS Date))", "cast_keep_nullable"),
        ("DateTime64(3, 'UTC')", "toStartOfMonth(at)", "enable_extended_results_for_datetime_functions"),
    ],
)
def test_a_key_that_an_alter_gave_another_type_is_refused_until_the_table_is_attached_again(
    lake: Lake, column_type: str, key: str, setting: str, change: str
) -> None:
    create(lake, column_type, key)
    put(lake, {1: '"2026-10-01"'})
    lake.load()
    name = f"{lake.database}.trips"
    lake.on_every_node(f"ALTER TABLE {name} {change} SETTINGS {setting} = 1")
    put(lake, {2: '"2026-10-31"'})
    # 25.8 shows the other type, of which the period would be partition 20727 rather than 20261001.
    said = f"has another type there than in a new table.*{setting}"
    with pytest.raises(AirflowFailException, match=said):
        lake.load()
    assert (numbers(lake), lake.left_behind()) == ([1], [])
    for statement in ("DETACH", "ATTACH"):
        lake.on_every_node(f"{statement} TABLE {name}")
    assert lake.load()["status"] == "published"
    assert numbers(lake) == [1, 2]


@pytest.mark.thorough
def test_a_column_that_a_load_adds_leaves_the_key_as_it_is_whatever_the_connection_sets(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lake, "DateTime64(3, 'UTC')", "toStartOfMonth(at)")
    set_for_loads(lake, monkeypatch, EXTENDED)
    lake.put(f"trips/{PERIOD}/1.jsonl", b'{"id": 1, "at": "2026-10-01", "note": "new"}')
    lake.load(on_new_columns="add")
    put(lake, {2: '"2026-10-31"'})
    lake.load(on_new_columns="add")
    assert numbers(lake) == [1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "key",
    [
        "(toYYYYMM(at), toHour(at) BETWEEN 6 AND 20)",
        "(toYYYYMM(at), toHour(at) IN (2))",
        "if(toHour(at) = 12, toYYYYMM(at), 0)",
        "(toYYYYMM(at), toMinute(at) = 17)",
        "(toYYYYMM(at), toHour(at) = 13 AND toMinute(at) = 2)",
        "(toYYYYMM(at), toSecond(at) = 31)",
    ],
)
def test_a_key_that_depends_on_the_time_of_day_is_refused(lake: Lake, key: str) -> None:
    create(lake, "DateTime('UTC')", key)
    put(lake, {1: '"2026-10-01 01:00:00"', 2: '"2026-10-02 12:00:00"'})
    refused(lake, "is not partitioned by month .* 2026-10 falls into 2 partitions", on_other_periods="leave_out")


def test_a_period_may_begin_where_the_clock_leaves_midnight_out(lake: Lake) -> None:
    create(lake, "DateTime('America/Asuncion')", "toYYYYMM(at)")
    lake.put("trips/2023-10/1.jsonl", b'{"id": 1, "at": "2023-10-01 01:00:00"}')
    assert lake.load(period="2023-10")["rows"] == 1


@pytest.mark.thorough
def test_the_column_of_the_key_may_have_any_name(lake: Lake) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (chs3_instant DateTime('UTC')) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(chs3_instant) ORDER BY tuple()"
    )
    lake.put(f"trips/{PERIOD}/1.jsonl", b'{"chs3_instant": "2026-10-01 01:00:00"}')
    assert lake.load()["rows"] == 1
