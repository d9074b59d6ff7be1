"""`ClickHouseHook.bulk_insert_rows`: many rows, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError, RowError

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

DAY = date(2026, 1, 2)


@pytest.fixture
def table(hook: ClickHouseHook, chs3_database: str) -> str:
    hook.query(
        f"CREATE TABLE {chs3_database}.`the trips` (id UInt32, `day's` Date, note String DEFAULT 'none') "
        "ENGINE = MergeTree ORDER BY id SETTINGS old_parts_lifetime = 600"
    )
    hook.query(f"SYSTEM STOP MERGES {chs3_database}.`the trips`")
    return f"{chs3_database}.the trips"


def count(hook: ClickHouseHook, table: str) -> tuple[Any, ...]:
    database, name = table.split(".")
    return hook.query(f"SELECT count(), uniqExact(_part), sum(id), any(note) FROM {database}.`{name}`")[0]


@pytest.mark.parametrize(("batch_size", "parts"), [(1, 25), (10, 3), (25, 1), (26, 1)])
def test_each_batch_is_one_block(hook: ClickHouseHook, table: str, batch_size: int, parts: int) -> None:
    rows = ((number, DAY) for number in range(25))
    assert hook.bulk_insert_rows(table, rows, ["id", "day's"], batch_size=batch_size) == 25
    assert count(hook, table) == (25, parts, 300, "none")


def test_rows_of_all_columns_need_no_names(hook: ClickHouseHook, table: str) -> None:
    assert hook.bulk_insert_rows(table, [(1, DAY, "x"), [2, DAY, "x"]]) == 2
    assert count(hook, table) == (2, 1, 3, "x")


def test_a_table_of_the_connections_database_needs_no_other(hook: ClickHouseHook, chs3_database: str) -> None:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

    hook.query(f"CREATE TABLE {chs3_database}.plain (id UInt8) ENGINE = Memory")
    assert ClickHouseHook(schema=chs3_database).bulk_insert_rows("plain", [(1,)]) == 1
    assert hook.bulk_insert_rows(f"`{chs3_database}`.`plain`", [(2,)]) == 1
    assert hook.query(f"SELECT sum(id) FROM {chs3_database}.plain") == [(3,)]


def test_no_rows_are_no_statement(hook: ClickHouseHook) -> None:
    assert hook.bulk_insert_rows("no_such_table", []) == 0


def test_only_a_batch_is_taken_at_a_time(hook: ClickHouseHook, table: str) -> None:
    seen = []

    def rows() -> Iterator[tuple[int, date]]:
        for number in range(4):
            yield number, DAY
            seen.append(count(hook, table)[0])

    hook.bulk_insert_rows(table, rows(), ["id", "day's"], batch_size=2)
    assert seen == [0, 2, 2, 4]


def test_a_row_that_does_not_fit_is_named_and_earlier_batches_stay(hook: ClickHouseHook, table: str) -> None:
    rows = [(number, DAY if number != 13 else "today") for number in range(25)]
    with pytest.raises(RowError) as caught:
        hook.bulk_insert_rows(table, rows, ["id", "day's"], batch_size=5)
    assert str(caught.value) == (
        "Row 14 cannot be inserted: 'today', a Python str, is no value for column \"day's\" of type Date. "
        "Rows 1 to 10 were inserted."
    )
    assert count(hook, table)[0] == 10


def test_a_retry_inserts_all_rows_again(hook: ClickHouseHook, table: str) -> None:
    for _ in range(2):
        hook.bulk_insert_rows(table, [(1, DAY)], ["id", "day's"])
    assert count(hook, table)[0] == 2


def test_a_servers_error_is_told(hook: ClickHouseHook, table: str) -> None:
    with pytest.raises(ClickHouseServerError, match="NO_SUCH_COLUMN"):
        hook.bulk_insert_rows(table, [(1,)], ["di"])


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_of_no_rows_is_refused(hook: ClickHouseHook, batch_size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"batch_size={batch_size} must be 1 or more rows"):
        hook.bulk_insert_rows("trips", [(1,)], batch_size=batch_size)
