"""A period's version changes with every value of its rows, and dates that no table holds are in no period."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.sources.row_lake import PERIOD, RowLake

NO_PERIODS = {
    False: ("9999-12-31", "infinity", "-infinity", "1900-01-01", "0044-03-15 BC", "20000-01-01"),
    True: ("9999-12-31", "0000-00-00", "1900-01-01", "2026-00-00", "0001-01-01"),
}
OF_CHARSETS = ("latin1", "cp1251", "sjis", "utf16", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb4 COLLATE utf8mb4_unicode_ci")


def _make(lake: RowLake, columns: str, *rows: str) -> str:
    """Make a table in the database, with `at` and some columns."""
    name = f"{lake.rows.table}_v"
    with closing(lake.rows.connection()) as connection:
        cursor = connection.cursor()
        if lake.is_mysql:
            cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            cursor.execute(f"INSERT INTO {name} VALUES ({row})")
        connection.commit()
    return name


def _typed(lake: RowLake, columns: str) -> None:
    """Make the table that is loaded into."""
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.typed ({columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY tuple()"
    )


def _load(lake: RowLake, name: str, **options: Any) -> dict[str, Any]:
    return lake.load(**{"table": "typed", "source_table": name, "time_column": "at", "key_column": None} | options)


def _planned(lake: RowLake, name: str, **options: Any) -> list[str]:
    objects = lake.store(table=name, time_column="at", key_column=None, **options)
    place = {"table": "typed", "database": lake.database, "cluster": lake.cluster.name}
    planned: list[str] = PlanLoadsOperator(task_id="plan", objects=objects, all_periods=True, **place).execute({})
    return planned


@pytest.mark.thorough(but=1)
def test_dates_that_no_table_holds_are_in_no_period(row_lake: RowLake) -> None:
    rows = [f"'{each}'" for each in ("2026-01-05", *NO_PERIODS[row_lake.is_mysql])]
    name = _make(row_lake, "at date", *rows)
    _typed(row_lake, "at Date")
    assert _planned(row_lake, name) == [PERIOD]
    assert _load(row_lake, name)["rows"] == 1


@pytest.mark.thorough(but=1, first=1)
def test_periods_of_instants_are_planned_in_their_zone(row_lake: RowLake) -> None:
    kind, zone = ("timestamp NULL", "") if row_lake.is_mysql else ("timestamptz", "+00")
    name = _make(row_lake, f"at {kind}", f"'2025-12-31 23:30:00{zone}'")
    _typed(row_lake, "at DateTime('Europe/Berlin')")
    assert _planned(row_lake, name, timezone="Europe/Berlin") == [PERIOD]


@pytest.mark.thorough(but=1)
def test_a_sum_of_times_sees_what_the_newest_time_hides(row_lake: RowLake) -> None:
    rows = ("'2026-01-05', 1, '2026-01-05 10:00:00'", "'2026-01-06', 2, '2026-01-05 10:05:00'")
    name = _make(row_lake, "at date, k bigint, updated_at timestamp NULL", *rows)
    _typed(row_lake, "at Date, k Int64")
    total = "UNIX_TIMESTAMP(updated_at)" if row_lake.is_mysql else "extract(epoch FROM updated_at)::numeric"
    for fingerprint, status in (("max(updated_at)", "unchanged"), (f"sum({total})", "published")):
        _load(row_lake, name, fingerprint=fingerprint)
        # It began before the newest change, and commits after it.
        row_lake.run(f"UPDATE {name} SET k = k + 10, updated_at = '2026-01-05 10:02:00' WHERE at = '2026-01-05'")
        assert _load(row_lake, name, fingerprint=fingerprint)["status"] == status
        row_lake.run(f"UPDATE {name} SET updated_at = '2026-01-05 10:00:00' WHERE at = '2026-01-05'")


@pytest.mark.thorough(but=1, first=1)
def test_a_node_may_get_only_rows_without_a_key(row_lake: RowLake) -> None:
    name = _make(row_lake, "at date, k bigint", "'2026-01-05', NULL", "'2026-01-06', 1", "'2026-01-07', 2")
    _typed(row_lake, "at Date, k Nullable(Int64)")
    assert _load(row_lake, name, key_column="k")["rows"] == 3


@pytest.mark.parametrize("rows", ["mysql"], indirect=True)
class TestMySql:
    @pytest.mark.thorough
    def test_long_bytes_are_loaded(self, row_lake: RowLake) -> None:
        # Their hexadecimal digits would be longer than the server makes of texts: that would be NULL.
        name = _make(row_lake, "at date, a longblob, b varbinary(9)", "'2026-01-05', x'00', x'00ff0a00'")
        _typed(row_lake, "at Date, a Nullable(String), b String")
        row_lake.run(f"UPDATE {name} SET a = REPEAT(x'00ff', 4500000)")
        _load(row_lake, name)
        sent = row_lake.on_every_node(f"SELECT length(a), hex(right(a, 2)), hex(b) FROM {row_lake.database}.typed")
        assert [row for rows in sent for row in rows] == [(9_000_000, "00FF", "00FF0A00")]

    def test_texts_of_several_character_sets_are_loaded(self, row_lake: RowLake) -> None:
        columns = ", ".join(f"c{number} varchar(9) CHARACTER SET {of}" for number, of in enumerate(OF_CHARSETS))
        name = _make(row_lake, f"at date, {columns}", "'2026-01-05', 'ü', 'ж', '日', '🚕', '🚕', '🚕'")
        _typed(row_lake, f"at Date, {', '.join(f'c{number} String' for number in range(len(OF_CHARSETS)))}")
        _load(row_lake, name)
        found = row_lake.on_every_node(f"SELECT * EXCEPT at FROM {row_lake.database}.typed")
        assert [row for rows in found for row in rows] == [("ü", "ж", "日", "🚕", "🚕", "🚕")]

    def test_a_change_of_a_long_row_is_seen(self, row_lake: RowLake) -> None:
        # Together longer than what the server makes of texts (max_allowed_packet): that would be NULL.
        name = _make(row_lake, "at date, a longtext, b longtext", "'2026-01-05', 'a', 'b'")
        _typed(row_lake, "at Date, a String, b String")
        for letter in "ab":
            row_lake.run(f"UPDATE {name} SET {letter} = REPEAT('{letter}', 9000000)")
        assert _load(row_lake, name)["status"] == "published"
        row_lake.run(f"UPDATE {name} SET a = REPEAT('z', 9000000)")
        assert _load(row_lake, name)["status"] == "published"
        assert _load(row_lake, name)["status"] == "unchanged"
