"""A time without a zone is the same moment whichever node reads it, and tomorrow's is that of today."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.deferring import run
from tests.support.lake import Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.several_periods import Periods

PERIOD = "2024-05"
ZONES = ["Europe/Berlin", "America/New_York"]
#: 2024-05-15 12:00:00 in these zones.
NOON = {"UTC": 1715774400, "Europe/Berlin": 1715767200, "America/New_York": 1715788800, "Asia/Tokyo": 1715742000}
IN_TOKYO = {"settings": {"session_timezone": "Asia/Tokyo"}}


@pytest.fixture(scope="module")
def two_zones() -> Iterator[ClickHouseCluster]:
    with ClickHouseCluster.start(2, time_zones=ZONES, **WITH_NARROW_USER) as cluster:
        yield cluster


@pytest.fixture
def lake(
    two_zones: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    with lake_on(two_zones, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake


@pytest.fixture
def moving(chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake on one node, whose time zone may change."""
    with (
        ClickHouseCluster.start(1, time_zones=["Europe/Berlin"], **WITH_NARROW_USER) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        yield lake


def create(lake: Lake, columns: str, *, key: str = "toYYYYMM(day)") -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips ({columns}) ENGINE = MergeTree PARTITION BY {key} ORDER BY tuple()"
    )


def put(lake: Lake, *lines: str, ending: str = "csv", files: int = 6, first: int = 0) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    for number in range(first, first + files):
        lake.put(f"trips/{PERIOD}/{number}.{ending}", body)


def load(lake: Lake, **options: Any) -> dict[str, Any]:
    return lake.load(period=PERIOD, **options)


def found(lake: Lake, values: str) -> set[Any]:
    """The distinct values of all rows, as UTC shows them."""
    sql = f"SELECT DISTINCT {values} FROM {lake.database}.trips"
    return {row if len(row) > 1 else row[0] for rows in lake.on_every_node(sql) for row in rows}


def parquet(lake: Lake, *texts: str, name: str = "x", files: int = 2) -> None:
    """Files of timestamps without a zone, and of days."""
    stamps = pa.array(list(texts)).cast(pa.timestamp("us"))
    days = pa.array([f"{PERIOD}-15"] * len(texts)).cast(pa.date32())
    body = io.BytesIO()
    pq.write_table(pa.table({"day": days, name: stamps}), body)
    for number in range(files):
        lake.put(f"trips/{PERIOD}/{number}.parquet", body.getvalue())


class TestNodesOfDifferentZones:
    def test_are_refused_with_their_names(self, lake: Lake) -> None:
        create(lake, "day Date, x DateTime")
        put(lake, "day,x", "2024-05-15,2024-05-15 12:00:00")
        with pytest.raises(AirflowFailException) as refused:
            load(lake)
        for each in (*ZONES, *(f":{node.tcp_port}" for node in lake.cluster.nodes), "'session_timezone'"):
            assert each in str(refused.value)
        assert found(lake, "x") == set()

    @pytest.mark.thorough
    @pytest.mark.parametrize("of", ["DateTime", "DateTime64(3)", "Nullable(DateTime)"])
    @pytest.mark.parametrize("ending", ["csv", "jsonl"])
    def test_read_in_the_zone_that_is_given(self, lake: Lake, of: str, ending: str) -> None:
        create(lake, f"day Date, x {of}")
        lines = {
            "csv": ("day,x", "2024-05-15,2024-05-15 12:00:00"),
            "jsonl": ('{"day": "2024-05-15", "x": "2024-05-15 12:00:00"}',),
        }
        put(lake, *lines[ending], ending=ending)
        load(lake, **IN_TOKYO)
        assert found(lake, "toUnixTimestamp(x)") == {NOON["Asia/Tokyo"]}
        assert load(lake, **IN_TOKYO)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_a_name_of_utc_is_that_of_another(self, lake: Lake) -> None:
        create(lake, "day Date, x DateTime")
        put(lake, "day,x", "2024-05-15,2024-05-15 12:00:00")
        load(lake, settings={"session_timezone": "Etc/UTC"})
        assert found(lake, "toUnixTimestamp(x)") == {NOON["UTC"]}
        assert load(lake, settings={"session_timezone": "UTC"})["status"] == "unchanged"
        assert "were read in 'UTC', and are now read in 'Asia/Tokyo'" in load(lake, **IN_TOKYO)["reason"]
        assert found(lake, "toUnixTimestamp(x)") == {NOON["Asia/Tokyo"]}

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("default", "values"),
        [
            ("DateTime('UTC') DEFAULT parseDateTimeBestEffort(text)", "toUnixTimestamp(made)"),
            ("DateTime DEFAULT toDateTime(text)", "toUnixTimestamp(made)"),
            ("UInt32 MATERIALIZED toUnixTimestamp(parseDateTimeBestEffort(text))", "made"),
            ("DateTime('UTC') MATERIALIZED toDateTime(text)", "toUnixTimestamp(made)"),
        ],
    )
    def test_compute_columns_of_texts_alike(self, lake: Lake, default: str, values: str) -> None:
        create(lake, f"day Date, text String, made {default}")
        put(lake, "day,text", "2024-05-15,2024-05-15 12:00:00")
        load(lake, **IN_TOKYO)
        assert found(lake, values) == {NOON["Asia/Tokyo"]}

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize(
        ("columns", "key", "what"),
        [
            ("ts DateTime", "toYYYYMM(ts)", "its partition key 'toYYYYMM(ts)'"),
            ("ts DateTime64(3)", "toStartOfMonth(ts)", "its partition key 'toStartOfMonth(ts)'"),
            ("day Date, x DateTime, d Date DEFAULT toDate(x)", "toYYYYMM(day)", "DEFAULT 'toDate(x)' of column 'd'"),
            (
                "day Date, x DateTime, s String MATERIALIZED toString(x)",
                "toYYYYMM(day)",
                "MATERIALIZED 'toString(x)' of column 's'",
            ),
            ("day Date, x DateTime, y String ALIAS toString(x), z String DEFAULT upper(y)", "toYYYYMM(day)", "'z'"),
        ],
    )
    def test_what_goes_by_each_server_is_refused(self, lake: Lake, columns: str, key: str, what: str) -> None:
        create(lake, columns, key=key)
        put(lake, "ts,day,x", "2024-05-15 12:00:00,2024-05-15,2024-05-15 12:00:00")
        with pytest.raises(AirflowFailException, match=re.escape(what)) as refused:
            load(lake, **IN_TOKYO)
        assert all(zone in str(refused.value) for zone in ZONES)

    def test_tables_whose_times_have_zones_load(self, lake: Lake) -> None:
        create(
            lake,
            "ts DateTime('UTC'), d Date DEFAULT toDate(ts), h String MATERIALIZED toString(ts)",
            key="toYYYYMM(ts)",
        )
        put(lake, "ts", "2024-05-31 23:30:00", "2024-05-01 00:30:00")
        load(lake, **IN_TOKYO)
        assert found(lake, "toUnixTimestamp(ts), toString(d), h") == {
            (1717198200, "2024-05-31", "2024-05-31 23:30:00"),
            (1714523400, "2024-05-01", "2024-05-01 00:30:00"),
        }

    @pytest.mark.thorough
    def test_periods_are_left_out_by_no_readers_zone(self, lake: Lake) -> None:
        create(lake, "ts DateTime('UTC'), n UInt8", key="toYYYYMM(ts)")
        put(lake, "text,n", "2024-06-01 02:00:00,1", "2024-05-15 12:00:00,2", files=8)
        load(lake, select={"ts": "toDateTime(text)", "n": "toUInt8(n)"}, on_other_periods="leave_out", **IN_TOKYO)
        assert found(lake, "toUnixTimestamp(ts), n") == {(1717174800, 1), (NOON["Asia/Tokyo"], 2)}
        assert sum(lake.rows_per_node()) == 16

    @pytest.mark.thorough
    @pytest.mark.parametrize("deferrable", [False, True])
    def test_expressions_are_of_one_zone(self, lake: Lake, deferrable: bool) -> None:
        create(lake, "day Date, h UInt8, n UInt32, t String")
        put(lake, "text", "2024-05-15 12:00:00")
        select = {
            "day": "toDate(text)",
            "h": "toHour(toTimeZone(toDateTime(text), 'UTC'))",
            "n": "toUnixTimestamp(parseDateTimeBestEffort(text))",
            "t": "toString(toDateTime(1715774400))",
        }
        if deferrable:
            # Over HTTP; it ends before the worker would leave.
            assert run(lake, {"period": PERIOD, "select": select, **IN_TOKYO})["rows"] == 6
        else:
            load(lake, select=select, **IN_TOKYO)
        assert found(lake, "h, n, t") == {(3, NOON["Asia/Tokyo"], "2024-05-15 21:00:00")}

    @pytest.mark.thorough
    def test_share_rows_by_a_sharding_key(self, lake: Lake) -> None:
        create(lake, "day Date, n UInt32, x DateTime, made DateTime('UTC') DEFAULT toDateTime('2024-05-15 12:00:00')")
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.over AS {lake.database}.trips "
            f"ENGINE = Distributed('{lake.cluster.name}', {lake.database}, trips, n)"
        )
        put(lake, "day,n,x", *(f"2024-05-15,{n},2024-05-15 12:00:00" for n in range(10)))
        load(lake, table="over", distribution="sharding_key", **IN_TOKYO)
        assert found(lake, "toUnixTimestamp(x), toUnixTimestamp(made)") == {(NOON["Asia/Tokyo"],) * 2}
        assert lake.rows_per_node() == [30, 30]


class TestOneServer:
    def test_whose_zone_changes_loads_its_periods_again(self, moving: Lake) -> None:
        create(moving, "day Date, x DateTime, s String DEFAULT toString(x)")
        put(moving, "day,x", "2024-05-15,2024-05-15 12:00:00", files=2)
        load(moving)
        assert found(moving, "toUnixTimestamp(x), s") == {(NOON["Europe/Berlin"], "2024-05-15 12:00:00")}
        moving.cluster.restart(0, time_zone="America/New_York")  # type: ignore[attr-defined]
        put(moving, "day,x", "2024-05-15,2024-05-15 12:00:00", files=1, first=2)
        result = load(moving)
        assert (
            "times without a zone were read in 'Europe/Berlin', and are now read in 'America/New_York'"
            in result["reason"]
        )
        assert found(moving, "toUnixTimestamp(x), s") == {(NOON["America/New_York"], "2024-05-15 12:00:00")}
        assert load(moving)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_whose_zone_changes_where_one_is_given_changes_nothing(self, moving: Lake) -> None:
        create(moving, "day Date, x DateTime")
        put(moving, "day,x", "2024-05-15,2024-05-15 12:00:00", files=2)
        load(moving, **IN_TOKYO)
        moving.cluster.restart(0, time_zone="America/New_York")  # type: ignore[attr-defined]
        assert load(moving, **IN_TOKYO)["status"] == "unchanged"
        put(moving, "day,x", "2024-05-15,2024-05-15 12:00:00", files=1, first=2)
        assert load(moving, **IN_TOKYO)["loaded_objects"] == 1
        assert found(moving, "toUnixTimestamp(x)") == {NOON["Asia/Tokyo"]}

    @pytest.mark.thorough
    @pytest.mark.parametrize("key", ["toYYYYMM(ts)", "toStartOfMonth(ts)"])
    def test_periods_of_a_key_without_a_zone_are_the_servers(self, moving: Lake, key: str) -> None:
        """23:30 of 31 May in Berlin is June in Tokyo, but May in the table."""
        create(moving, "ts DateTime, n UInt8", key=key)
        for period, text in (("2024-05", "2024-06-01 06:30:00"), ("2024-06", "2024-06-15 12:00:00")):
            moving.put(f"trips/{period}/0.csv", f"ts,n\n{text},1\n".encode())
        load(moving, **IN_TOKYO)
        assert found(moving, "toUnixTimestamp(ts), toYYYYMM(ts)") == {(1717191000, 202405)}
        moving.on_every_node(f"TRUNCATE TABLE {moving.database}.trips")
        moving.on_every_node(f"TRUNCATE TABLE {moving.database}.chs3_ledger")
        operator = Periods(moving).operator("2024-05", "2024-06", key="trips/{YYYY-MM}/", **IN_TOKYO)
        assert len({tuple(each["query_ids"]) for each in operator.execute({})}) == 1
        assert found(moving, "toUnixTimestamp(ts), toYYYYMM(ts)") == {(1717191000, 202405), (1718420400, 202406)}

    def test_a_zone_that_no_server_knows_is_refused(self, lake: Lake) -> None:
        create(lake, "day Date, x DateTime")
        put(lake, "day,x", "2024-05-15,2024-05-15 12:00:00", files=2)
        with pytest.raises(AirflowFailException, match="does not accept session_timezone = 'Europe/Berln'"):
            load(lake, settings={"session_timezone": "Europe/Berln"})
        with pytest.raises(AirflowFailException, match="names no time zone"):
            load(lake, settings={"session_timezone": ""})


class TestTimestampsWithoutAZoneUnderSelect:
    """Nodes whose zones differ, and files whose timestamps have none."""

    LATE = "2024-05-14 23:30:00"

    @pytest.mark.thorough
    def test_are_refused_for_a_column_of_another_zone(self, lake: Lake) -> None:
        create(lake, "day Date, n DateTime('Europe/Berlin')")
        parquet(lake, self.LATE)
        for expression in ("x", "addHours(x, 1)", "if(day = '2024-05-15', `x`, x)"):
            with pytest.raises(
                AirflowFailException, match=r"has timestamps without a zone.*'utc'.*'column_zone'"
            ) as told:
                load(lake, select={"day": "day", "n": expression}, **IN_TOKYO)
        # Its advice works.
        (advice,) = re.findall(r"select=(\{.*?\})\.", str(told.value))
        load(lake, select={"day": "day"} | eval(advice), naive_timestamps="utc", **IN_TOKYO)
        assert found(lake, "toString(n, 'America/New_York')") == {self.LATE}

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize(("meaning", "shown"), [("utc", "2024-05-15 01:30:00"), ("column_zone", LATE)])
    @pytest.mark.parametrize("name", ["x", "it's `x`"])
    def test_mean_what_is_said(self, lake: Lake, meaning: str, shown: str, name: str) -> None:
        create(lake, "day Date, n DateTime('Europe/Berlin'), h UInt8, s String")
        parquet(lake, self.LATE, name=name)
        quoted = "`" + name.replace("`", "\\`") + "`"
        select = {"day": "day", "n": quoted, "h": f"toHour({quoted})", "s": f"toString(toDate({quoted}))"}
        load(lake, select=select, naive_timestamps=meaning, **IN_TOKYO)
        assert found(lake, "toString(n), h, s") == {(shown, 23, "2024-05-14")}

    @pytest.mark.thorough
    @pytest.mark.parametrize("meaning", [None, "utc", "column_zone"])
    def test_show_the_hour_that_is_written(self, lake: Lake, meaning: str | None) -> None:
        create(lake, "day Date, h UInt8")
        parquet(lake, self.LATE)
        load(lake, select={"day": "day", "h": "toHour(x)"}, naive_timestamps=meaning, **IN_TOKYO)
        assert found(lake, "h") == {23}

    @pytest.mark.thorough
    @pytest.mark.parametrize("of", ["DateTime('Europe/Berlin')", "Nullable(DateTime64(3, 'Europe/Berlin'))"])
    def test_of_an_hour_that_clocks_skip_are_refused(self, lake: Lake, of: str) -> None:
        create(lake, f"day Date, n {of}")
        parquet(lake, "2024-03-31 02:30:00", self.LATE)
        with pytest.raises(AirflowFailException, match=r"'n'.*row 1 of"):
            load(lake, select={"day": "day", "n": "addHours(x, 1)"}, naive_timestamps="column_zone", **IN_TOKYO)

    @pytest.mark.thorough
    def test_of_a_column_without_a_zone_mean_the_one_that_is_read_in(self, lake: Lake) -> None:
        create(lake, "day Date, n DateTime, m Nullable(DateTime64(6))")
        parquet(lake, self.LATE)
        with pytest.raises(AirflowFailException, match=r"in Asia/Tokyo: set casts={'naive_timestamps'"):
            load(lake, select={"day": "day", "n": "x"}, **IN_TOKYO)
        load(lake, select={"day": "day", "n": "x", "m": "x"}, naive_timestamps="column_zone", **IN_TOKYO)
        assert found(lake, "toString(n, 'Asia/Tokyo'), toString(m, 'Asia/Tokyo')") == {
            (self.LATE, f"{self.LATE}.000000")
        }


@pytest.mark.thorough
def test_the_doctor_finds_nodes_of_different_zones(
    lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from airflow_provider_chs3.cli.main import main

    create(lake, "day Date, x DateTime")
    assert main(["doctor", "--table", f"{lake.database}.trips"]) == 1
    assert "The nodes have different time zones (America/New_York on" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Auckland"])
def test_a_profile_with_a_zone_changes_no_value(
    chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    with (
        ClickHouseCluster.start(
            2, time_zones=["Europe/Berlin"] * 2, user_settings={"session_timezone": zone}, **WITH_NARROW_USER
        ) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        create(
            lake, "day Date, x DateTime, made DateTime('UTC') DEFAULT parseDateTimeBestEffort('2024-05-15 12:00:00')"
        )
        put(lake, "day,x", "2024-05-15,2024-05-15 12:00:00")
        load(lake)
        assert found(lake, "toUnixTimestamp(x), toUnixTimestamp(made)") == {(NOON["Europe/Berlin"],) * 2}
        load(lake, select={"day": "day", "x": "toDateTime(x)"})
        assert found(lake, "toUnixTimestamp(x), toUnixTimestamp(made)") == {(NOON["Europe/Berlin"],) * 2}
