"""Files declare facts about their values: lengths, byte orders, time zones, and types that differ from file to file."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from tests.integration.valued import AT, PREFIX, arrow, create, loaded, parquet, values
from tests.support.lake import Lake
from tests.support.refusal import refused


@pytest.mark.thorough
def test_wide_numbers_and_addresses_of_clickhouses_own_parquet(lake: Lake) -> None:
    types = "i Int128, u UInt256, v IPv4, w IPv6, x Nullable(IPv6), y Nullable(Int256)"
    create(lake, types)
    endpoint = lake.s3.meta.endpoint_url
    keys = lake.s3._request_signer._credentials
    where = f"s3('{endpoint}/{lake.bucket}/{PREFIX}a.parquet', '{keys.access_key}', '{keys.secret_key}', 'Parquet')"
    lake.on_node(
        0,
        f"INSERT INTO FUNCTION {where} SELECT toDateTime('{AT}', 'UTC') AS ts, toInt128(48 + number) AS i, "
        "toUInt256(57) AS u, toIPv4('1.2.3.4') AS v, toIPv6('::1') AS w, toIPv6('::2') AS x, toInt256(-1) AS y "
        "FROM numbers(2)",
    )
    lake.load()
    assert values(lake, "concat(i, ' ', u, ' ', v, ' ', w, ' ', x, ' ', y)") == [
        f"{48 + n} 57 1.2.3.4 ::1 ::2 -1" for n in range(2)
    ]


@pytest.mark.thorough
def test_bytes_of_a_fixed_length_keep_zeros_at_their_end(lake: Lake) -> None:
    create(lake, "n String, f FixedString(4), m Nullable(String)")
    short, long = pa.array([b"a\0", b"\0\0"], pa.binary(2)), pa.array([b"abc\0"], pa.binary(4))
    lake.put(PREFIX + "a.parquet", parquet(n=short, f=short, m=short))
    lake.put(PREFIX + "b.parquet", parquet(n=long, f=long, m=long))
    lake.load()
    assert values(lake, "(hex(n), hex(f), hex(m))") == [
        ("0000", "00000000", "0000"),
        ("6100", "61000000", "6100"),
        ("61626300", "61626300", "61626300"),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("column_type", ["Date32", "DateTime64(3, 'UTC')", "String", "Int64"])
def test_days_of_arrows_date64_are_refused_where_32_bits_of_seconds_do_not_hold_them(
    lake: Lake, column_type: str
) -> None:
    create(lake, f"d {column_type}")
    lake.put(PREFIX + "a.arrow", arrow(d=pa.array([dt.date(1968, 7, 20)], pa.date64())))
    refused(lake, "'d' is .*row 1 of .*a.arrow has a day before 1970 or after 2105")
    lake.put(PREFIX + "a.arrow", arrow(d=pa.array([dt.date(2024, 10, 4)], pa.date64())))
    lake.load()
    assert values(lake, "toDate(toDateTime(d, 'UTC'))") == [dt.date(2024, 10, 4)]


class TestTimestampsWithoutAZone:
    BODY = parquet(at=pa.array([dt.datetime(2026, 10, 5, 12)], pa.timestamp("us")))

    def test_are_refused_where_the_columns_zone_is_another_until_the_user_says_what_they_are(self, lake: Lake) -> None:
        create(lake, "at DateTime('America/New_York')")
        lake.put(PREFIX + "a.parquet", self.BODY)
        refused(lake, "timestamps without a zone.*casts={'naive_timestamps': 'utc'} or 'column_zone'")
        for meaning, wanted in (("utc", "08:00:00"), ("column_zone", "12:00:00")):
            found = loaded(lake, "a.parquet", self.BODY, "toString(at)", naive_timestamps=meaning)
            assert found == [f"2026-10-05 {wanted}"]

    @pytest.mark.thorough
    def test_are_refused_inside_of_containers_too(self, lake: Lake) -> None:
        create(lake, "at Array(DateTime('America/New_York'))")
        body = parquet(at=pa.array([[dt.datetime(2026, 10, 5, 12)]], pa.list_(pa.timestamp("us"))))
        lake.put(PREFIX + "a.parquet", body)
        for meaning in (None, "column_zone"):
            refused(lake, "'column_zone'} works only for columns that are timestamps", naive_timestamps=meaning)
        assert loaded(lake, "a.parquet", body, "toString(at)", naive_timestamps="utc") == ["['2026-10-05 08:00:00']"]
        local = {"ts": "ts", "at": "arrayMap(t -> toDateTime64(toString(t), 6, 'America/New_York'), at)"}
        found = loaded(lake, "a.parquet", body, "toString(at)", naive_timestamps="utc", select=local)
        assert found == ["['2026-10-05 12:00:00']"]

    @pytest.mark.thorough
    def test_are_utc_in_a_column_of_utc(self, lake: Lake) -> None:
        create(lake, "at DateTime64(3, 'UTC')")
        assert loaded(lake, "a.parquet", self.BODY, "toString(at)") == ["2026-10-05 12:00:00.000"]


class TestColumnsWithADotInTheirNames:
    """As pandas' json_normalize() writes them, or ClickHouse a Nested."""

    NOON = dt.datetime(2026, 10, 5, 12)
    NAIVE = pa.array([NOON], pa.timestamp("us"))
    NEW_YORK = "DateTime('America/New_York')"

    @pytest.mark.thorough
    def test_timestamps_without_a_zone_are_refused_until_somebody_says_what_they_mean(self, lake: Lake) -> None:
        create(lake, f"`a.b` {self.NEW_YORK}")
        body = parquet(**{"a.b": self.NAIVE})
        lake.put(PREFIX + "a.parquet", body)
        refused(lake, "'a.b' in .*a.parquet has timestamps without a zone.*casts={'naive_timestamps': 'utc'}")
        found = loaded(lake, "a.parquet", body, "toString(`a.b`)", naive_timestamps="column_zone")
        assert found == ["2026-10-05 12:00:00"]

    @pytest.mark.thorough
    def test_and_so_they_are_in_a_nested_column(self, lake: Lake) -> None:
        create(lake, "n Nested(a DateTime64(3, 'America/New_York'))")
        lake.put(PREFIX + "a.parquet", parquet(**{"n.a": pa.array([[0]], pa.list_(pa.timestamp("us")))}))
        refused(lake, "'n.a' in .*a.parquet has timestamps without a zone")

    @pytest.mark.thorough
    def test_times_of_day_are_refused(self, lake: Lake) -> None:
        create(lake, "`a.b` DateTime('UTC')")
        lake.put(PREFIX + "a.parquet", parquet(**{"a.b": pa.array([5], pa.time32("s"))}))
        refused(lake, "'a.b' in .*a.parquet holds times of day")

    @pytest.mark.thorough
    @pytest.mark.parametrize("meaning", [None, "column_zone"])
    def test_say_nothing_of_the_column_named_like_what_is_before_the_dot(self, lake: Lake, meaning: str | None) -> None:
        create(lake, f"a {self.NEW_YORK}")
        body = parquet(**{"a": self.NAIVE.cast(pa.timestamp("us", "UTC")), "a.x": self.NAIVE})
        found = loaded(lake, "a.parquet", body, "toString(a)", naive_timestamps=meaning)
        assert found == ["2026-10-05 08:00:00"]

    @pytest.mark.thorough
    def test_may_be_structs(self, lake: Lake) -> None:
        create(lake, f"`a.b` Tuple(c {self.NEW_YORK})")
        struct = pa.struct([("c", pa.timestamp("us"))])
        lake.put(PREFIX + "a.parquet", parquet(**{"a.b": pa.array([{"c": self.NOON}], struct)}))
        refused(lake, "'a.b' in .*a.parquet has timestamps without a zone")

    @pytest.mark.thorough
    def test_are_refused_beside_a_struct_whose_field_has_the_same_path(self, lake: Lake) -> None:
        create(lake, f"`a.b` {self.NEW_YORK}")
        struct = pa.array([{"b": self.NOON}], pa.struct([("b", pa.timestamp("us"))]))
        zoned = self.NAIVE.cast(pa.timestamp("us", "UTC"))
        lake.put(PREFIX + "a.parquet", parquet(**{"a": struct, "a.b": zoned}))
        refused(lake, "a.b")


@pytest.mark.thorough
@pytest.mark.parametrize("column_type", ["Nullable(Int64)", "Nullable(Float64)", "Nullable(Decimal(18, 2))"])
def test_integers_in_one_file_and_doubles_in_the_next(lake: Lake, column_type: str) -> None:
    create(lake, f"n {column_type}")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array([1, 2**53 + 2])))
    lake.put(PREFIX + "b.parquet", parquet(n=pa.array([3.0, None])))
    if "Float" in column_type:
        lake.load()
        assert values(lake, "n") == [1.0, 3.0, float(2**53 + 2), None]
    else:
        lake.load()
        assert values(lake, "toString(n)") == ["1", "3", str(2**53 + 2), None]


@pytest.mark.thorough
def test_a_conflict_in_a_column_that_is_not_loaded_does_not_matter(lake: Lake) -> None:
    create(lake, "n Int32")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array([1]), x=pa.array([1])))
    lake.put(PREFIX + "b.parquet", parquet(n=pa.array([2]), x=pa.array(["a"])))
    assert lake.load()["rows"] == 2
    assert lake.load(select={"ts": "ts", "n": "n + 1"})["status"] == "published"
    assert values(lake, "n") == [2, 3]


class TestDefaultsInPlaceOfNulls:
    """`null_as_default` is about NULL: whatever else does not fit is refused, as without it."""

    @pytest.mark.thorough
    def test_an_hour_that_clocks_skip_is_no_null(self, lake: Lake) -> None:
        create(lake, "at DateTime('Europe/Berlin')")
        skipped = pa.array([dt.datetime(2026, 3, 29, 2, 30)], pa.timestamp("us"))
        lake.put(PREFIX + "a.parquet", parquet(at=skipped))
        shown = r"Column 'at' is .*row 1 of .*a.parquet has '2026-03-29 02:30:00\.0*'"
        refused(lake, shown, naive_timestamps="column_zone", null_as_default=True)

    @pytest.mark.thorough
    @pytest.mark.parametrize("column", ["JSON", "JSON(a Int64) DEFAULT '{\"a\": 7}'"])
    @pytest.mark.parametrize("ending", ["jsonl", "parquet"])
    def test_a_column_of_json_takes_them(self, lake: Lake, column: str, ending: str) -> None:
        create(lake, f"n UInt8, j {column}")
        lines = ({"n": 1, "j": None}, {"n": 2}, {"n": 3, "j": {"a": 5}})
        of_jsonl = "\n".join(json.dumps({"ts": AT} | line) for line in lines).encode()
        of_parquet = parquet(n=pa.array([1, 2, 3], pa.uint8()), j=pa.array([None, None, '{"a": 5}']))
        lake.put(f"{PREFIX}a.{ending}", of_jsonl if ending == "jsonl" else of_parquet)
        refused(lake, "Column 'j' is JSON.*'null_as_default': True} takes the column's default")
        lake.load(null_as_default=True)
        default = "{}" if column == "JSON" else '{"a":7}'
        assert values(lake, "tuple(n, toString(j))") == [(1, default), (2, default), (3, '{"a":5}')]

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("text", ["", "null", "[1]", "x"])
    def test_a_text_that_is_no_object_of_json_is_no_null(self, lake: Lake, text: str) -> None:
        create(lake, "j JSON")
        lake.put(PREFIX + "a.parquet", parquet(j=pa.array([None, text])))
        refused(lake, "Column 'j' is JSON, but row 2 of .*a.parquet", null_as_default=True)

    @pytest.mark.thorough
    def test_a_number_beyond_all_doubles_is_no_null(self, lake: Lake) -> None:
        create(lake, "v Float64")
        lake.put(PREFIX + "a.jsonl", f'{{"ts": "{AT}", "v": 1e400}}'.encode())
        refused(lake, "Column 'v' is Float64, but row 1 of .*a.jsonl", null_as_default=True)

    @pytest.mark.thorough
    def test_a_byte_order_mark_is_no_null(self, lake: Lake) -> None:
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.trips (v String, day Date) ENGINE = MergeTree "
            "PARTITION BY toYYYYMM(day) ORDER BY v"
        )
        lake.put(PREFIX + "a.csv", "\ufeffabc,2026-10-05\n".encode())
        refused(lake, "Row 1 of .*a.csv begins with a byte order mark", file_format="CSV", null_as_default=True)
