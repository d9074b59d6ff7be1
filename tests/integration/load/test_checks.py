"""Checks of the user's: rows that fail one are not published, and the period stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ClickHouseServerError
from tests.support.checked_trips import NO_NULLS, Trips, trips
from tests.support.lake import PERIOD, Lake, recorded_loads
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes", "trips"]


def staging_of(lake: Lake) -> list[Any]:
    of_staging = f"database = '{lake.database}' AND name LIKE 'chs3\\_%\\_%'"
    return lake.on_node(0, f"SELECT name FROM system.tables WHERE {of_staging}")


def test_rows_that_pass_are_published_with_what_was_found(trips: Trips) -> None:
    trips.put("a", range(40))
    found = trips.load(
        {
            "column_mapping": {
                "fare": {"null_check": {"equal_to": 0}, "min": {"geq_to": 1, "leq_to": Decimal("1.50")}},
                "id": {"unique_check": {"equal_to": 0}, "distinct_check": {"equal_to": 44, "tolerance": 0.1}},
                "at": {"max": {"greater_than": date(2026, 10, 5), "leq_to": datetime(2026, 10, 5, 12)}},
                "odd `name": {"min": {"equal_to": "x"}},
            },
            "table_checks": {
                "rows": {"check_statement": "count() > 39 -- all of them"},
                "each row": {"check_statement": "id < 40", "partition_clause": "fare > 1"},
            },
            "statements": {"newer": "SELECT (SELECT max(id) FROM staged) >= (SELECT max(id) FROM published);"},
        }
    )
    assert [(each["name"], each["found"], each["has_passed"]) for each in found["checks"]] == [
        ("null_check of fare", "0", True),
        ("min of fare", "1.5", True),
        ("unique_check of id", "0", True),
        ("distinct_check of id", "40", True),
        ("max of at", "2026-10-05 12:00:00", True),
        ("min of odd `name", "x", True),
        ("rows", "true", True),
        ("each row", "true", True),
        ("newer", "1", True),
    ]
    assert trips.ids() == [*range(40)]
    (recorded,) = recorded_loads(trips.lake)
    assert recorded["checks"] == found["checks"]


def test_rows_that_fail_are_not_published_and_leave_nothing(trips: Trips) -> None:
    trips.put("a", range(40))
    trips.put("b", range(40, 50), fare="\\N")
    with pytest.raises(
        AirflowFailException, match=r"checks failed: null_check of fare is 10, wanted equal to 0\. The tab"
    ):
        trips.load(NO_NULLS)
    sql = f"SELECT error FROM {trips.lake.database}.chs3_loads WHERE event = 'failed'"
    assert ["null_check of fare is 10, wanted equal to 0" in error for (error,) in trips.lake.on_node(0, sql)] == [True]
    assert trips.ids() == []
    assert staging_of(trips.lake) == []


def test_some_of_the_rows_that_fail_are_named(trips: Trips) -> None:
    trips.put("a", range(40))
    trips.put("b", range(40, 50), fare="\\N")
    trips.put("c", range(60, 63), fare="-499.7")
    trips.put("d", range(61, 64), fare="7")
    checks = {
        "column_mapping": {
            "fare": {"null_check": {"equal_to": 0}, "min": {"geq_to": 0}, "max": {"less_than": 9}},
            "id": {"unique_check": {"equal_to": 0}, "distinct_check": {"leq_to": 5}},
        },
        "table_checks": {
            "small": {"check_statement": "id < 62", "partition_clause": "fare > 0"},
            "few": {"check_statement": "count() < 10"},
        },
        "statements": {"none": "SELECT count() = 0 FROM staged"},
    }
    with pytest.raises(AirflowFailException, match=r"'warn'}\. Some of the rows that fail:\n") as failed:
        trips.load(checks)
    _, _, text = str(failed.value).partition("that fail:\n")
    blocks = map(str.splitlines, re.split(r"\n(?! )", text))
    named = {name: [json.loads(row) for row in rows] for name, *rows in blocks}
    assert named == {
        "null_check of fare:": [{"id": number, "fare": None} for number in range(40, 45)],
        "min of fare:": [{"id": number, "fare": -499.7} for number in (60, 61, 62)],
        "unique_check of id:": [{"id": number} for number in (61, 61, 62, 62)],
        "small:": [{"id": number} for number in (62, 63)],
    }


@pytest.mark.thorough
def test_rows_that_fail_are_shown_as_they_are_up_to_a_length(trips: Trips) -> None:
    texts = ["two  spaces", "two  spaces", "ä" * 999, "ä" * 999]
    rows = "".join(f"{PERIOD}-05 12:00:00,{number},1,{text}\n" for number, text in enumerate(texts))
    trips.lake.put(f"t/{PERIOD}/a.csv", ("at,id,fare,odd `name\n" + rows).encode())
    checks = {"column_mapping": {"odd `name": {"unique_check": {"equal_to": 0}}}}
    with pytest.raises(AirflowFailException, match="rows that fail") as failed:
        trips.load(checks)
    *_, short, _, long = str(failed.value).splitlines()
    assert json.loads(short)["odd `name"] == texts[0]
    assert (long.count("ä"), long[-2:]) == (300 - len('{"id":3,"odd `name":"'), " …")


@pytest.mark.thorough
def test_a_load_does_not_fail_where_no_rows_can_be_named(trips: Trips, strikes: Strikes) -> None:
    trips.put("a", range(40), fare="\\N")

    def fail() -> None:
        raise ClickHouseServerError(241, "MEMORY_LIMIT_EXCEEDED", "memory limit exceeded", "h:1")

    strikes.before("Read some of the rows that fail", fail)
    assert trips.load(NO_NULLS, policies={"on_failed_check": "warn"})["status"] == "published"
    assert strikes.struck


@pytest.mark.thorough
def test_new_rows_are_checked_beside_the_published_ones(trips: Trips) -> None:
    """As they would be published: the sum of both fails, and the period keeps what it had until the file is mended."""
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(39, 50))
    unique = {"column_mapping": {"id": {"unique_check": {"equal_to": 0}}}}
    with pytest.raises(AirflowFailException, match="unique_check of id is 1, wanted"):
        trips.load(unique)
    assert trips.ids() == [*range(40)]
    trips.put("b", range(40, 50))
    assert trips.load(unique)["loaded_objects"] == 1
    assert trips.ids() == [*range(50)]


def test_a_warning_publishes_all_the_same(trips: Trips, capsys: pytest.CaptureFixture[str]) -> None:
    trips.put("a", range(40), fare="\\N")
    found = trips.load(NO_NULLS, policies={"on_failed_check": "warn"})
    assert trips.ids() == [*range(40)]
    assert found["checks"] == [
        {"name": "null_check of fare", "wanted": "equal to 0", "found": "40", "has_passed": False}
    ]
    assert "is published although checks failed: null_check of fare is 40, wanted equal to 0" in capsys.readouterr().out


def test_a_statement_compares_with_the_published_period(trips: Trips) -> None:
    enough = {"enough": "WITH 0.8 AS share SELECT (SELECT count() FROM staged) >= share * count() FROM published"}
    trips.put("a", range(40))
    trips.load({"statements": enough})
    trips.put("a", range(31))
    with pytest.raises(AirflowFailException, match="enough is 0, wanted true"):
        trips.load({"statements": enough})
    assert trips.ids() == [*range(40)]
    trips.put("a", range(33))
    trips.load({"statements": enough})
    assert trips.ids() == [*range(33)]


def test_of_several_periods_one_fails_and_the_others_are_published(trips: Trips) -> None:
    periods = ["2026-08", "2026-09", "2026-10"]
    for number, period in enumerate(periods):
        trips.put("a", range(10), fare="\\N" if number == 1 else "2", period=period)
    with pytest.raises(Exception, match=r"2026-09 was not published, as checks failed: null_check of fare is 10"):
        trips.load(NO_NULLS, period=None, periods=periods)
    assert [trips.ids(period) for period in periods] == [[*range(10)], [], [*range(10)]]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("checks", "says"),
    [
        ({"column_mapping": {"fair": {"min": {"geq_to": 0}}}}, r"check min of fair cannot be computed: .*fair"),
        ({"table_checks": {"x": {"check_statement": "count( > 1"}}}, "check x cannot be computed: Syntax error"),
        ({"statements": {"y": "SELECT count() FROM stagd"}}, "check y cannot be computed: .*stagd"),
        ({"column_mapping": {"fare": {"min": {"geq_to": 0, "partition_clause": "nope"}}}}, "min of fare.*nope"),
    ],
)
def test_a_check_that_cannot_be_computed_is_an_error_before_anything_is_written(
    trips: Trips, checks: Mapping[str, Any], says: str
) -> None:
    trips.put("a", range(4))
    with pytest.raises(Exception, match=says):
        trips.load(checks)
    # Apart from the record of the failure.
    others = f"database = '{trips.lake.database}' AND name != 'chs3_loads'"
    tables = trips.lake.on_node(0, f"SELECT name FROM system.tables WHERE {others}")
    assert tables == [(trips.lake.table,)]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_distinct_values_are_those_of_all_nodes(trips: Trips) -> None:
    for name in "abcdef":
        trips.put(name, range(40))
    unique = {"column_mapping": {"id": {"unique_check": {"equal_to": 0}, "distinct_check": {"equal_to": 40}}}}
    with pytest.raises(AirflowFailException, match=r"failed: unique_check of id is 200, wanted equal to 0\. The"):
        trips.load(unique)
    assert trips.ids() == []


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_of_several_partitions_all_are_checked(lake: Lake) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{lake.table} (at DateTime('UTC'), id UInt32, tenant String) "
        "ENGINE = MergeTree PARTITION BY (tenant, toYYYYMM(at)) ORDER BY id"
    )

    def put(name: str, ids: range, period: str) -> None:
        lines = (f"{period}-05 12:00:00,{number},t{number % 3}\n" for number in ids)
        lake.put(f"t/{period}/{name}.csv", ("at,id,tenant\n" + "".join(lines)).encode())

    for number, name in enumerate("abcdef"):
        put(name, range(10 * number, 10 * number + 10), PERIOD)
        put(name, range(100), "2026-09")
    tenants = {"tenant": {"distinct_check": {"equal_to": 3}}, "id": {"unique_check": {"equal_to": 0}}}
    checks = {
        "column_mapping": tenants,
        "statements": {"no fewer": "SELECT (SELECT count() FROM staged) >= (SELECT count() FROM published)"},
    }
    arguments = {"key": "t/{YYYY-MM}/", "file_format": "CSVWithNames", "checks": checks}
    assert [each["found"] for each in lake.load(period=PERIOD, **arguments)["checks"]] == ["3", "0", "1"]
    put("b", range(5), PERIOD)
    with pytest.raises(AirflowFailException, match=r"unique_check of id is 5, .*; no fewer is 0, wanted true"):
        lake.load(period=PERIOD, **arguments)
    put("b", range(10, 20), PERIOD)
    put("g", range(60, 61), PERIOD)
    assert [each["found"] for each in lake.load(period=PERIOD, **arguments)["checks"]] == ["3", "0", "1"]


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"policies": {"on_failed_check": "warn"}}])
def test_a_check_that_fails_on_a_value_is_named_and_no_retry_helps(trips: Trips, options: dict[str, Any]) -> None:
    trips.put("a", range(4))
    with pytest.raises(AirflowFailException, match=r"The check x cannot be computed: .*zero"):
        trips.load({"table_checks": {"x": {"check_statement": "intDiv(1, id) >= 0"}}}, **options)
    assert trips.ids() == []


@pytest.mark.thorough
def test_over_no_rows_a_value_is_null_and_what_is_said_of_each_row_is_true(trips: Trips) -> None:
    trips.put("a", range(4))
    none = {"partition_clause": "id > 100"}
    checks = {
        "column_mapping": {"id": {"max": {"leq_to": 1, **none}, "null_check": {"equal_to": 0, **none}}},
        "table_checks": {
            "each": {"check_statement": "id > 5", **none},
            "all": {"check_statement": "count() > 0", **none},
        },
    }
    found = trips.load(checks, policies={"on_failed_check": "warn"})["checks"]
    assert {each["name"]: (each["found"], each["has_passed"]) for each in found} == {
        "max of id": ("NULL", False),
        "null_check of id": ("0", True),
        "each": ("true", True),
        "all": ("false", False),
    }


@pytest.mark.thorough
def test_a_few_texts_that_are_no_number_are_null_and_more_of_them_stop_the_load(trips: Trips) -> None:
    """As on the page about bad rows."""
    checks = {"column_mapping": {"fare": {"null_check": {"leq_to": 10}}}}
    select = {"at": "at", "id": "id", "fare": "toDecimal64OrNull(fare, 2)"}
    trips.put("good", range(20))
    trips.put("bad", range(20, 30), fare="n/a")
    trips.load(checks, select=select)
    assert trips.ids() == list(range(30))
    trips.put("worse", range(30, 31), fare="n/a")
    with pytest.raises(AirflowFailException, match=r"null_check of fare is 11, wanted at most 10\."):
        trips.load(checks, select=select)
    assert trips.ids() == list(range(30))


@pytest.mark.thorough
def test_a_row_that_cannot_be_read_stops_its_period_alone(trips: Trips) -> None:
    trips.put("a", range(3))
    trips.put("b", range(3, 6), period="2026-11", fare="1.239")
    with pytest.raises(AirflowFailException, match=r"row 1 of .*2026-11/b.csv has '1\.239' for it"):
        trips.load({}, period=None, periods=[PERIOD, "2026-11"])
    assert (trips.ids(), trips.ids("2026-11")) == ([0, 1, 2], [])
