"""The plain data: periods, manifests, results."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from uuid import UUID

import pytest

from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, TableName, Unit, as_json
from airflow_provider_chs3.core.model.period import Period, parse_periods
from airflow_provider_chs3.exceptions import ConfigurationError

WRITTEN = datetime(2026, 10, 2, tzinfo=UTC)
FIRST = Unit("lake/t/a.parquet", 10, "etag1", WRITTEN)
SECOND = Unit("lake/t/b.parquet", 20, "etag2", WRITTEN)


class TestPeriod:
    @pytest.mark.parametrize(
        "text", ["2026-10", "1971-01", "2104-12", "2026-10-05", "2026-10-05T13Z", "2026-W53", "2026-Q4", "2026", "all"]
    )
    def test_parses_what_it_prints(self, text):
        assert str(Period.parse(text)) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2026-1",
            "2026-W54",
            "2026-Q5",
            "2026-10-32",
            "2026-10-01T10",
            "2026-10-01T24Z",
            "table",
            "202610",
            "26-10",
            " 2026-10",
            "2026-10\n",
            "2026/10",
            "x",
            "None",
            "{{ ds }}",
        ],
    )
    def test_other_forms_are_no_period(self, text):
        # It does not name `period`: the text may come from `periods`, a run's conf or its partition key.
        with pytest.raises(ConfigurationError, match=r"(?s)^'.*' is not a period: write an hour \(2026-10-05T13Z"):
            Period.parse(text)

    @pytest.mark.parametrize("value", [None, 202610, ["2026-10"], datetime(2026, 10, 1)])
    def test_other_values_are_no_period(self, value):
        with pytest.raises(ConfigurationError, match="is not a period"):
            Period.parse(value)

    def test_one_of_a_list_that_is_no_text_is_no_period(self):
        with pytest.raises(ConfigurationError, match="'None' is not a period"):
            parse_periods(["2026-10", None])

    @pytest.mark.parametrize("text", ["2026-13", "2026-00", "0000-01", "2026-02-29", "2025-W53"])
    def test_must_exist(self, text):
        with pytest.raises(ConfigurationError, match=f"'{text}' is not a period"):
            Period.parse(text)

    @pytest.mark.parametrize("text", ["1969-12", "2106-01", "9999-12-31", "1970"])
    def test_must_fit_into_a_datetime(self, text):
        with pytest.raises(ConfigurationError, match=f"{text} is not within the years 1971 to 2104"):
            Period.parse(text)

    @pytest.mark.parametrize(
        ("text", "after", "end"),
        [
            ("2026-10-25T23Z", "2026-10-26T00Z", "2026-10-26T00"),
            ("2026-12-31", "2027-01-01", "2027-01-01T00"),
            ("2026-W53", "2027-W01", "2027-01-04T00"),
            ("2026-12", "2027-01", "2027-01-01T00"),
            ("2026-Q4", "2027-Q1", "2027-01-01T00"),
            ("2026", "2027", "2027-01-01T00"),
            ("all", "all", "2105-01-01T00"),
        ],
    )
    def test_ends_where_the_next_one_begins(self, text, after, end):
        found = Period.parse(text)
        assert (str(found.shifted(1)), found.end.isoformat(timespec="hours")) == (after, end)
        assert found.shifted(1).shifted(-1) == found
        assert Period.of(found.begin, found.grain) == found

    @pytest.mark.parametrize(
        ("periods", "expected"), [(0, "2026-10"), (1, "2026-11"), (3, "2027-01"), (-10, "2025-12"), (-21, "2025-01")]
    )
    def test_is_shifted_over_years(self, periods, expected):
        assert str(Period.of_month(2026, 10).shifted(periods)) == expected

    def test_periods_are_in_order(self):
        assert sorted([Period.of_month(2027, 1), Period.of_month(2026, 12), Period.of_month(2026, 2)])[
            0
        ] == Period.of_month(2026, 2)


class TestFingerprint:
    def test_does_not_depend_on_the_order_of_listing(self):
        assert Manifest.of([SECOND, FIRST]).fingerprint == Manifest.of([FIRST, SECOND]).fingerprint

    @pytest.mark.parametrize("change", [{"path": "lake/t/c.parquet"}, {"size_bytes": 11}, {"version": "other"}])
    def test_depends_on_path_size_and_version(self, change):
        assert Manifest.of([replace(FIRST, **change), SECOND]).fingerprint != Manifest.of([FIRST, SECOND]).fingerprint

    def test_does_not_depend_on_the_time_of_writing(self):
        later = replace(FIRST, last_modified=WRITTEN + timedelta(days=1))
        assert Manifest.of([later]).fingerprint == Manifest.of([FIRST]).fingerprint

    def test_differs_for_more_or_fewer_objects(self):
        assert len({Manifest.of(some).fingerprint for some in ([], [FIRST], [SECOND], [FIRST, SECOND])}) == 4

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (
                [Unit("b/x", 1, "2,3", WRITTEN)],
                [Unit("b/x", 1, "2", WRITTEN), Unit("b/x3", 1, "", WRITTEN)],
            ),
            ([Unit("b/x'", 1, "e", WRITTEN)], [Unit("b/x", 1, "'e", WRITTEN)]),
            ([Unit("b/x1", 1, "e", WRITTEN)], [Unit("b/x", 11, "e", WRITTEN)]),
        ],
    )
    def test_cannot_be_fooled_by_where_fields_end(self, one, other):
        assert Manifest.of(one).fingerprint != Manifest.of(other).fingerprint

    def test_is_the_same_in_every_version_of_this_package(self):
        assert Manifest.of([FIRST, SECOND]).fingerprint == "b5b018da4c2c7f3e741e4496c91309cb"

    @pytest.mark.parametrize("key", ["🚕", "a\udcffb", "a\nb", "a\0b"])
    def test_takes_any_key(self, key):
        assert len(Manifest.of([replace(FIRST, path=f"lake/{key}")]).fingerprint) == 32


class TestChanges:
    def test_are_empty_for_the_same_objects(self):
        assert Manifest.of([FIRST, SECOND]).changes_in(Manifest.of([SECOND, FIRST])) == ""

    def test_an_added_object_changes_none_of_those_that_were_listed(self):
        later = Manifest.of([FIRST, SECOND, replace(FIRST, path="lake/t/c")])
        assert Manifest.of([FIRST, SECOND]).changes_in(later) == ""
        assert Manifest.of([FIRST, SECOND]).added_in(later) == 1

    @pytest.mark.parametrize(
        ("after", "expected"),
        [
            ([FIRST], "1 deleted (lake/t/b.parquet)"),
            ([], "2 deleted (lake/t/a.parquet…)"),
            ([replace(FIRST, version="x"), SECOND], "1 overwritten (lake/t/a.parquet)"),
            ([replace(FIRST, size_bytes=0), SECOND], "1 overwritten (lake/t/a.parquet)"),
            (
                [FIRST, replace(SECOND, last_modified=WRITTEN + timedelta(seconds=1))],
                "1 overwritten (lake/t/b.parquet)",
            ),
            ([replace(FIRST, path="lake/z"), SECOND], "1 deleted (lake/t/a.parquet)"),
        ],
    )
    def test_tell_what_changed_and_an_example(self, after, expected):
        assert Manifest.of([FIRST, SECOND]).changes_in(Manifest.of(after)) == expected


def test_a_manifest_adds_up_sizes():
    assert Manifest.of([FIRST, SECOND]).size_bytes == 30


@pytest.mark.parametrize("key", ["a.csv", "t/2026-10/a b.csv", "/odd"])
def test_an_object_knows_its_key(key):
    assert replace(FIRST, path=f"lake/{key}").key == key


def test_a_node_is_named_by_its_address():
    assert str(Node(2, 1, "ch-2", 9000)) == "ch-2:9000"
    assert str(Node(1, 1, "", 0)) == "the server"


@pytest.mark.parametrize(
    ("table", "database", "found"),
    [
        ("trips", None, TableName("default", "trips")),
        ("trips", "taxi", TableName("taxi", "trips")),
        ("taxi.trips", None, TableName("taxi", "trips")),
        ("taxi.trips", "db", TableName("db", "taxi.trips")),
        ("taxi.trips.old", None, TableName("taxi", "trips.old")),
        (".inner", None, TableName("default", ".inner")),
        ("trips.", None, TableName("default", "trips.")),
    ],
)
def test_a_table_may_be_named_with_its_database(table: str, database: str | None, found: TableName) -> None:
    assert TableName.of(table, database, default_database="default") == found


class TestObjectChanges:
    THIRD = replace(FIRST, path="lake/third.parquet")

    def test_what_came_changed_and_went(self):
        before = Manifest.of([FIRST, SECOND])
        now = Manifest.of([replace(FIRST, version="other"), self.THIRD])
        changes = ObjectChanges.between(before, now)
        assert (changes.new, changes.overwritten, changes.deleted) == ((self.THIRD,), (FIRST.path,), (SECOND.path,))
        assert changes.counts == {"new": 1, "overwritten": 1, "deleted": 1}
        assert str(changes) == f"1 new, 1 overwritten ({FIRST.path}), 1 deleted ({SECOND.path})"

    def test_a_copy_over_itself_is_no_change(self):
        now = Manifest.of([replace(FIRST, last_modified=FIRST.last_modified.replace(year=2030))])
        assert ObjectChanges.between(Manifest.of([FIRST]), now).counts == {}


def manifest_of(**sizes: int) -> Manifest:
    return Manifest.of(Unit(name, size, f"etag{size}", WRITTEN) for name, size in sizes.items())


LOADED_BEFORE = manifest_of(a=10, b=20, c=30)


@pytest.mark.parametrize(
    ("now", "removed", "read"),
    [
        (manifest_of(a=10, b=20, c=30, d=5), (), ["d"]),
        (manifest_of(a=11, b=20, c=30), ("a",), ["a"]),
        (manifest_of(a=11, c=30, d=5), ("a", "b"), ["a", "d"]),
        (manifest_of(a=10, c=30), ("b", "a"), ["a"]),
        (manifest_of(a=10, c=30, d=5), ("b",), ["d"]),
        (manifest_of(), ("a", "b", "c"), []),
    ],
    ids=[
        "added",
        "overwritten",
        "all at once",
        "deleted: the smallest is read again",
        "deleted and added",
        "none left",
    ],
)
def test_what_is_removed_and_read(now, removed, read):
    changes = ObjectChanges.between(LOADED_BEFORE, now)
    assert changes.removed(now) == removed
    assert [unit.path for unit in changes.to_read(now, removed).objects] == read


@pytest.mark.parametrize("value", [None, True, 0, -(2**63), 2**64 - 1, 1.5, "text", [1, ["a"]], {"a": [None]}])
def test_what_json_has_stays(value):
    assert as_json(value) == value
    assert type(as_json(value)) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, ("a",)), [1, ["a"]]),
        (2**64, "18446744073709551616"),
        (-(2**63) - 1, "-9223372036854775809"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006+00:00"),
        (time(3, 4, 5), "03:04:05"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (IPv4Address("1.2.3.4"), "1.2.3.4"),
        ({1: (Decimal(2),)}, {"1": ["2"]}),
    ],
)
def test_what_json_lacks_is_text(value, expected):
    assert as_json(value) == expected
    assert json.loads(json.dumps(as_json(value), allow_nan=False)) == expected
