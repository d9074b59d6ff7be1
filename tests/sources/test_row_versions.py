"""A period's version changes with every value of its rows, and dates that no table holds are in no period."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sources.database.listing import RowsListing
from tests.sources.row_lake import RowLake
from tests.sources.trips_target import PERIOD
from tests.support.waiting import wait_until

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


@pytest.mark.thorough
def test_dates_that_no_table_holds_are_in_no_period(row_lake: RowLake) -> None:
    rows = [f"'{each}'" for each in ("2026-01-05", *NO_PERIODS[row_lake.is_mysql])]
    name = _make(row_lake, "at date", *rows)
    _typed(row_lake, "at Date")
    assert _planned(row_lake, name) == [PERIOD]
    assert _load(row_lake, name)["rows"] == 1


@pytest.mark.thorough
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


@pytest.mark.thorough
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

    @pytest.mark.thorough
    def test_texts_of_several_character_sets_are_loaded(self, row_lake: RowLake) -> None:
        columns = ", ".join(f"c{number} varchar(9) CHARACTER SET {of}" for number, of in enumerate(OF_CHARSETS))
        name = _make(row_lake, f"at date, {columns}", "'2026-01-05', 'ü', 'ж', '日', '🚕', '🚕', '🚕'")
        _typed(row_lake, f"at Date, {', '.join(f'c{number} String' for number in range(len(OF_CHARSETS)))}")
        _load(row_lake, name)
        found = row_lake.on_every_node(f"SELECT * EXCEPT at FROM {row_lake.database}.typed")
        assert [row for rows in found for row in rows] == [("ü", "ж", "日", "🚕", "🚕", "🚕")]

    def test_every_change_of_a_value_is_another_version(self, row_lake: RowLake) -> None:
        columns = (
            "at datetime, n decimal(9, 2), f double, r float, t text, u text, v varchar(9), c char(3), b blob, "
            "l varchar(9) CHARACTER SET latin1, w varchar(9) CHARACTER SET utf16, e enum('a', 'a,b'), s set('x', 'y'), "
            "i bigint unsigned, k bit(64), z timestamp(6) NULL, h time(3), d date, g point, j json, y year"
        )
        first = {
            **{"at": "2026-01-05 00:00:00", "n": "1.00", "f": "0", "r": "0.1", "t": "ab", "u": "c", "v": "", "c": "a"},
            **{"b": "a", "l": "ü", "w": "é", "e": "a", "s": "x", "i": "1", "k": "1", "z": "2026-01-05 00:00:00"},
            **{"h": "10:00:00", "d": "2026-01-05", "j": '{"a":1}', "y": "2026"},
        }
        changes = {
            **{"at": "2026-01-05 00:00:01", "n": "1.01", "f": "5e-324", "r": "0.10000001", "c": "A", "b": "a\\0"},
            **{"l": "u", "w": "e", "e": "a,b", "s": "x,y", "i": "18446744073709551615", "k": "2"},
            **{"z": "2026-01-05 00:00:00.000001", "h": "10:00:00.001", "d": "2026-01-06", "j": '{"a":2}', "y": "2027"},
        }
        name = _make(row_lake, columns)
        row_lake.run(f"INSERT INTO {name} ({', '.join(first)}) VALUES {tuple(first.values())}")
        _assert_seen(row_lake, name, first, changes)
        before = _version(row_lake, name)
        row_lake.run(f"UPDATE {name} SET g = ST_GeomFromText('POINT(1 2)')")
        assert _version(row_lake, name) != before

    @pytest.mark.thorough
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


@pytest.mark.parametrize("rows", ["postgres"], indirect=True)
class TestPostgres:
    def test_every_change_of_a_value_is_another_version(self, row_lake: RowLake) -> None:
        row_lake.run(f"CREATE TYPE {row_lake.rows.table}_e AS ENUM ('a', 'b')")
        columns = (
            "at timestamptz, n numeric, f float8, r real, t text, u text, c char(3), b bytea, j json, k jsonb, "
            f"a text[], e {row_lake.rows.table}_e, d date, s timestamp, i interval, x xml, o bool, v varchar"
        )
        first = {
            **{"at": "2026-01-05 00:00:00+00", "n": "1.0", "f": "0", "r": "0.1", "t": "ab", "u": "c", "c": "a"},
            **{"b": r"\x00", "j": '{"a":1}', "k": '{"a":1}', "a": "{1,2}", "e": "a", "d": "infinity"},
            **{"s": "2026-01-05", "i": "1 day", "x": "<a/>", "o": "t", "v": ""},
        }
        name = _make(row_lake, columns, ", ".join(f"'{each}'" for each in first.values()))
        changes = {
            **{"at": "2026-01-05 00:00:00.000001+00", "n": "1.00", "f": "-0", "r": "0.10000001", "c": "b"},
            **{"b": r"\x0000", "j": '{"a": 1}', "k": '{"a":2}', "a": '{"1,2"}', "e": "b", "d": "-infinity"},
            **{"s": "2026-01-05 00:00:01", "i": "24 hours", "x": "<b/>", "o": "f"},
        }
        _assert_seen(row_lake, name, first, changes)

    def test_rows_are_hashed_again_only_if_somebody_wrote(
        self, row_lake: RowLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str, Any]] = []
        ask = RowsListing._ask

        def noted(listing: RowsListing, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
            asked.append((statement, answer := ask(listing, statement, parameters)))
            return answer

        name = _make(row_lake, "at date, t text", "'2026-01-05', 'a'")
        monkeypatch.setattr(RowsListing, "_ask", noted)
        listing = row_lake.store(table=name, time_column="at", key_column=None).listing()
        first = _versions(listing)
        hashed = [answer[0][-1] for statement, answer in asked if "record_send" in statement]
        assert _versions(listing) == first
        # The server may have work of its own, such as statistics of the table.
        statement, answer = asked[-1]
        assert ("record_send" not in statement) == (answer == [(hashed[0],)] and hashed[0] is not None)
        row_lake.run(f"UPDATE {name} SET t = 'b'")
        assert _versions(listing) != first
        assert "record_send" in asked[-1][0]

    def test_the_state_is_unknown_where_others_decide_what_is_shown(self, row_lake: RowLake) -> None:
        name = _make(row_lake, "at date, t text", "'2026-01-05', 'a'")
        row_lake.run(f"CREATE VIEW {name}_w AS SELECT * FROM {name} WHERE at < now()")
        row_lake.run(f"CREATE TABLE {name}_p (at date, t text) PARTITION BY RANGE (at)")
        row_lake.run(f"CREATE TABLE {name}_r AS SELECT * FROM {name}")
        row_lake.run(f"ALTER TABLE {name}_r ENABLE ROW LEVEL SECURITY")
        row_lake.run(f"CREATE UNLOGGED TABLE {name}_u AS SELECT * FROM {name}")
        row_lake.run(f"CREATE MATERIALIZED VIEW {name}_m AS SELECT * FROM {name}")
        row_lake.run(f"""CREATE TABLE "{name}_'\\" AS SELECT * FROM {name}""")
        assert [_state(row_lake, f"{name}{end}") for end in ("_w", "_p", "_r", "_u")] == [None] * 4
        # Statistics that the server collects may be in progress.
        for end in ("_m", "_'\\"):
            wait_until(lambda end=end: _state(row_lake, f"{name}{end}"))

    def test_the_end_of_what_is_in_progress_is_another_state(self, row_lake: RowLake) -> None:
        name = _make(row_lake, "at date, t text", "'2026-01-05', 'a'")
        wait_until(lambda: _state(row_lake, name))
        with closing(row_lake.rows.connection()) as connection:
            connection.cursor().execute(f"INSERT INTO {name} VALUES ('2026-01-05', 'b')")
            before, versions = _state(row_lake, name), _version(row_lake, name)
            connection.commit()
        wait_until(lambda: _state(row_lake, name))
        assert _state(row_lake, name) != before
        assert _version(row_lake, name) != versions


def _assert_seen(lake: RowLake, name: str, first: dict[str, str], changes: dict[str, str]) -> None:
    """Each change of a value is another version, and back again the same; so are texts that move among columns."""
    versions = [_version(lake, name)]
    for column, value in changes.items():
        lake.run(f"UPDATE {name} SET {column} = '{value}'")
        versions.append(_version(lake, name))
        lake.run(f"UPDATE {name} SET {column} = '{first[column]}'")
        assert _version(lake, name) == versions[0], column
    for change in (
        "t = 'a', u = 'bc'",
        "t = 'c', u = 'ab'",
        "v = NULL",
        "t = NULL",
        "t = 'AB'",
        "t = NULL, u = '2,ab'",
    ):
        lake.run(f"UPDATE {name} SET {change}")
        versions.append(_version(lake, name))
    assert len(set(versions)) == len(versions) == len(changes) + 7


def _versions(listing: RowsListing) -> list[str]:
    return [unit.version for page in listing.pages("", PERIOD) for unit in page.objects()]


def _version(lake: RowLake, name: str) -> str:
    (found,) = _versions(lake.store(table=name, time_column="at", key_column=None).listing())
    return found


def _state(lake: RowLake, name: str) -> str | None:
    listing = lake.store(table=name, time_column="at", key_column=None).listing()
    ((found,),) = listing._ask(f"SELECT {listing.dialect.state(listing.table)}")
    return found
