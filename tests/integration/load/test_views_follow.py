"""With `views="follow"`, the tables of materialized views hold what plain INSERTs into their base would have left."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.load.reloading import context_of
from tests.support import deferring
from tests.support.deferring import Gate, gate
from tests.support.following_views import COLUMNS, MERGED, ZONES, assert_zones, made, run
from tests.support.killing import steps_of, strikes_after, strikes_amid
from tests.support.lake import PERIOD, Lake

__all__ = ["gate"]

FIRST = Trips(rows_per_period=900, files_per_period=3)
SECOND = Trips(seed=2, rows_per_period=1_200, files_per_period=3)

ZONES_OF_EVENTS = ZONES.replace("trip_id", "id")


def create_view(
    lake: Lake,
    name: str = "zones",
    *,
    base: str = "trips",
    select: str = ZONES,
    columns: str = COLUMNS,
    key: str = "toYYYYMM(month)",
    engine: str = "AggregatingMergeTree",
    order: str = "(month, zone)",
) -> None:
    run(
        lake,
        f"CREATE TABLE taxi.{name} ({columns}) ENGINE = {engine} {key and 'PARTITION BY ' + key} ORDER BY {order}",
        f"CREATE MATERIALIZED VIEW taxi.{name}_view TO taxi.{name} AS {select.format(base=f'taxi.{base}')}",
    )


def inserted(lake: Lake, *views: str) -> None:
    """Insert the rows of the table into another one on the same node, which has views of the same SELECTs."""
    run(lake, "CREATE TABLE taxi.plain_trips AS taxi.trips")
    for name in views or ("zones",):
        rows = lake.on_node(
            0, f"SELECT as_select FROM system.tables WHERE database = '{lake.database}' AND name = '{name}_view'"
        )
        select = re.sub(rf"{lake.database}\.(trips|zones)\b", rf"{lake.database}.plain_\1", rows[0][0])
        run(
            lake,
            f"CREATE TABLE taxi.plain_{name} AS taxi.{name}",
            f"CREATE MATERIALIZED VIEW taxi.plain_{name}_view TO taxi.plain_{name} AS {select}",
        )
    run(lake, "INSERT INTO taxi.plain_trips SELECT * FROM taxi.trips SETTINGS max_block_size = 100")


@pytest.mark.three_nodes
@pytest.mark.every_change
def test_the_views_table_holds_what_inserts_would_have_left(trips_lake: Lake) -> None:
    lake = trips_lake
    create_view(lake)
    for trips in (FIRST, SECOND):
        lake.upload(trips)
        result = lake.load(views="follow")
        (view,) = result["views"]
        assert (result["status"], view["status"], view["period"]) == ("published", "published", PERIOD)
        assert (view["view"], view["target"]) == (f"{lake.database}.zones_view", f"{lake.database}.zones")
    result = lake.load(views="follow")
    assert (result["status"], result["views"][0]["status"]) == ("unchanged", "unchanged")
    inserted(lake)
    assert made(lake) == made(lake, "plain_zones")
    assert any(made(lake))


ROW_WISE = "SELECT toDate(pickup_at) AS month, zone, 1 AS trips, fare AS fares FROM {base}"
#: Why → the SELECT, and what the load says.
SELECTS = {
    "a window": ("SELECT toDate(pickup_at) AS month, zone, row_number() OVER () AS trips FROM {base}", "has a window"),
    "LIMIT": (f"{ROW_WISE} LIMIT 3", "has LIMIT"),
    "LIMIT BY": (f"{ROW_WISE} LIMIT 3 BY zone", "has LIMIT"),
    "OFFSET": (f"{ROW_WISE} OFFSET 3", "has OFFSET"),
    "DISTINCT": (f"SELECT month, zone FROM (SELECT DISTINCT * FROM ({ROW_WISE}))", "has DISTINCT"),
    "HAVING": (f"{ZONES} HAVING trips > 3", "has HAVING"),
    "UNION": (f"SELECT * FROM ({ROW_WISE} UNION ALL {ROW_WISE})", "has UNION"),
    "a sub-query": (
        "SELECT toDate(pickup_at) AS month, zone, (SELECT count() FROM {base}) AS trips FROM {base}",
        "reads .*trips several times",
    ),
    "a self-join": (
        "WITH rows AS (SELECT * FROM {base}) SELECT toDate(a.pickup_at) AS month, a.zone AS zone FROM rows AS a "
        "JOIN rows AS b ON a.trip_id = b.trip_id",
        "reads .*trips several times",
    ),
    "PASTE JOIN": (
        "SELECT toDate(pickup_at) AS month, zone FROM {base} PASTE JOIN (SELECT dummy FROM system.one) AS others",
        "has PASTE JOIN",
    ),
    "a sample": (f"{ROW_WISE} WHERE rand() % 2 = 0", "has a random function"),
    "a table function": (
        "SELECT toDate(pickup_at) AS month, zone FROM {base} JOIN numbers(3) AS n ON n.number = trip_id",
        r"reads numbers\(…\), which may read",
    ),
    "rows of the other side": (
        "SELECT toDate(pickup_at) AS month, zone FROM {base} RIGHT JOIN system.one ON zone = toString(dummy)",
        "adds rows that another table has alone",
    ),
}


@pytest.mark.parametrize("why", SELECTS)
@pytest.mark.thorough(but=1)
def test_a_select_that_goes_by_blocks_stops_the_load_before_it_writes(trips_lake: Lake, why: str) -> None:
    lake, (select, said) = trips_lake, SELECTS[why]
    create_view(lake, select=select)
    lake.upload(FIRST)
    with pytest.raises(
        AirflowFailException, match=rf"zones_view cannot follow .*trips, so nothing was loaded: .*{said}"
    ):
        lake.load(views="follow")
    assert lake.rows_per_node() == [0] * len(lake.cluster.nodes)
    assert lake.load()["status"] == "published"


#: Why → statements, and what the load says.
TARGETS = {
    "a table of its own": (
        ["CREATE MATERIALIZED VIEW taxi.own ENGINE = SummingMergeTree ORDER BY zone AS SELECT zone FROM taxi.trips"],
        "has a table of its own",
    ),
    "another engine": (
        [
            "CREATE TABLE taxi.none (month Date) ENGINE = Null",
            "CREATE MATERIALIZED VIEW taxi.own TO taxi.none AS SELECT toDate(pickup_at) AS month FROM taxi.trips",
        ],
        "writes to .*none, of engine Null",
    ),
    "a view of the base": (
        [
            "CREATE VIEW taxi.per_zone AS SELECT zone, count() AS trips FROM taxi.trips GROUP BY zone",
            "CREATE TABLE taxi.shares (month Date, zone String, trips UInt64) "
            "ENGINE = MergeTree PARTITION BY toYYYYMM(month) ORDER BY month",
            "CREATE MATERIALIZED VIEW taxi.own TO taxi.shares AS SELECT toDate(pickup_at) AS month, zone, "
            "per_zone.trips AS trips FROM taxi.trips JOIN taxi.per_zone AS per_zone USING (zone)",
        ],
        "reads .*per_zone, of engine View, which may read .*trips in its turn",
    ),
    "two views": (
        ["CREATE MATERIALIZED VIEW taxi.second TO taxi.zones AS SELECT toDate(pickup_at) AS month FROM taxi.trips"],
        "all write to .*zones, and a load of one",
    ),
    "another table's view": (
        [
            "CREATE TABLE taxi.others AS taxi.trips",
            "CREATE MATERIALIZED VIEW taxi.second TO taxi.zones AS SELECT toDate(pickup_at) AS month FROM taxi.others",
        ],
        "all write to .*zones, and a load of one",
    ),
    "a view that refreshes": (
        [
            "CREATE MATERIALIZED VIEW taxi.second REFRESH EVERY 1 YEAR APPEND TO taxi.zones "
            "AS SELECT toDate(pickup_at) AS month, zone FROM taxi.trips"
        ],
        "all write to .*zones, and a load of one",
    ),
    "rows of others": (["INSERT INTO taxi.zones (month, zone) VALUES ('2026-10-01', 'x')"], "its load will stop: "),
    "no partitions": (
        [
            "CREATE TABLE taxi.ever (month Date) ENGINE = MergeTree ORDER BY month",
            "CREATE MATERIALIZED VIEW taxi.own TO taxi.ever AS SELECT toDate(pickup_at) AS month FROM taxi.trips",
        ],
        "ever has no partitions by time",
    ),
    "shorter periods": (
        [
            "CREATE TABLE taxi.days (month Date) ENGINE = MergeTree PARTITION BY month ORDER BY month",
            "CREATE MATERIALIZED VIEW taxi.own TO taxi.days AS SELECT toDate(pickup_at) AS month FROM taxi.trips",
        ],
        "no partitions of it make up 2026-10-01",
    ),
    "another key": (
        [
            "CREATE TABLE taxi.by_zone (month Date, zone String) ENGINE = MergeTree PARTITION BY zone ORDER BY month",
            "CREATE MATERIALIZED VIEW taxi.own TO taxi.by_zone AS "
            "SELECT toDate(pickup_at) AS month, zone FROM taxi.trips",
        ],
        "by_zone is not partitioned by month .its key is 'zone'",
    ),
}


@pytest.mark.thorough
def test_a_base_that_merges_rows_away_is_refused(lake: Lake) -> None:
    lake.create_table(engine="ReplacingMergeTree")
    create_view(lake)
    lake.upload(FIRST)
    with pytest.raises(AirflowFailException, match=r"merges remove rows of .*trips"):
        lake.load(views="follow")
    assert lake.rows_per_node() == [0] * len(lake.cluster.nodes)


@pytest.mark.parametrize("why", TARGETS)
@pytest.mark.thorough(but=1)
def test_a_table_that_cannot_follow_stops_the_load_before_it_writes(trips_lake: Lake, why: str) -> None:
    lake, (statements, said) = trips_lake, TARGETS[why]
    create_view(lake)
    run(lake, *statements)
    lake.upload(FIRST)
    way_out = "Or set views='warn', which leaves the tables of views as they are"
    with pytest.raises(AirflowFailException, match=rf"cannot follow .*, so nothing was loaded: .*{said}.*{way_out}"):
        lake.load(views="follow")
    assert lake.rows_per_node() == [0] * len(lake.cluster.nodes)
    lake.load(views="warn")
    assert lake.facts() == FIRST.facts(PERIOD)


@pytest.mark.thorough
def test_a_view_that_sees_no_row_of_the_table_has_nothing_to_follow(trips_lake: Lake) -> None:
    lake = trips_lake
    select = "SELECT toDate(pickup_at) AS month, zone FROM system.one JOIN {base} ON zone = toString(dummy)"
    create_view(lake, select=select)
    lake.upload(FIRST)
    assert lake.load(views="follow")["views"] == []


YEARS = "SELECT toStartOfYear(month) AS year, sum(trips) AS trips, uniqMergeState(ids) AS ids FROM {base} GROUP BY year"


def create_chain(lake: Lake) -> None:
    """Zones over trips, rows beside them, and years over zones."""
    create_view(lake)
    run(lake, "CREATE TABLE taxi.names (zone String, name String) ENGINE = MergeTree ORDER BY zone")
    run(lake, "INSERT INTO taxi.names SELECT concat('zone ', toString(number)), 'x' FROM numbers(3)")
    joined = (
        "SELECT toDate(pickup_at) AS month, t.zone AS zone, name, arrayJoin([1, 2]) AS n, fare FROM {base} AS t "
        f"LEFT JOIN {lake.database}.names AS names ON names.zone = t.zone WHERE fare > 5"
    )
    columns = "month Date, zone String, name String, n UInt8, fare Decimal(10, 2), more UInt8 DEFAULT 7"
    create_view(lake, "named", select=joined, columns=columns, engine="MergeTree")
    columns = "year Date, trips SimpleAggregateFunction(sum, UInt64), ids AggregateFunction(uniq, UInt64)"
    create_view(lake, "years", base="zones", select=YEARS, columns=columns, key="toYear(year)", order="year")


def assert_follows(lake: Lake) -> None:
    """Compare with what INSERTs leave: of the first views, and of the one over the table of another."""
    run(lake, *(f"DROP TABLE IF EXISTS taxi.plain_{name}_view" for name in ("zones", "named", "years")))
    run(lake, *(f"DROP TABLE IF EXISTS taxi.plain_{name}" for name in ("trips", "zones", "named", "years")))
    inserted(lake, "zones", "named", "years")
    for name, merged in (
        ("zones", MERGED),
        ("named", "month, zone, name, n, more, count(), sum(fare)"),
        ("years", "year, sum(trips), uniqMerge(ids)"),
    ):
        assert (name, made(lake, name, merged)) == (name, made(lake, f"plain_{name}", merged))
        assert any(made(lake, name, merged))


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_chains_of_views_follow_base_by_base(trips_lake: Lake) -> None:
    lake = trips_lake
    create_chain(lake)
    for period, trips in (("2026-09", FIRST), (PERIOD, FIRST), (PERIOD, SECOND)):
        lake.upload(trips, period)
        views = lake.load(period=period, views="follow")["views"]
        assert [(view["target"].partition(".")[2], view["period"], view["status"]) for view in views] == [
            ("named", period, "published"),
            ("zones", period, "published"),
            ("years", "2026", "published"),
        ]
    assert_follows(lake)


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("points", [strikes_after, strikes_amid])
def test_after_kill_9_at_any_step_a_run_ends_in_what_inserts_would_have_left(trips_lake: Lake, points: Any) -> None:
    lake = trips_lake
    create_view(lake)
    versions = cycle([FIRST, SECOND])

    def load() -> Any:
        return lake.load(views="follow")

    lake.upload(next(versions))
    load()
    lake.upload(next(versions))
    found = list(points(steps_of(load)))
    for strike in found:
        lake.upload(next(versions))
        print(f"Killed at {strike}")  # shown where it fails
        strike.kill_in(load)
        assert load()["views"][0]["status"] in ("published", "unchanged")
        assert [each["status"] for each in load()["views"]] == ["unchanged"]
        assert_zones(lake)
    assert len(found) > 10
    assert lake.left_behind() == []


@pytest.mark.thorough
@pytest.mark.every_change
def test_what_a_dead_run_left_behind_is_loaded_by_the_next(trips_lake: Lake) -> None:
    lake = trips_lake
    create_view(lake)
    arguments = {"periods": ["2026-09", PERIOD], "period": None}
    for period in arguments["periods"]:
        lake.upload(FIRST, period)
    lake.load(**arguments, views="follow")
    lake.upload(SECOND)
    # A run that ended once the base was published.
    assert lake.load()["status"] == "published"
    where = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/", "table": f"{lake.database}.trips"}
    plan = PlanLoadsOperator(
        task_id="plan", **where, periods=["2026-09", PERIOD], cluster=lake.cluster.name, views="follow"
    )
    assert plan.execute({}) == [PERIOD]
    first, second = lake.load(**arguments, views="follow")
    assert [first["status"], second["status"]] == ["unchanged"] * 2
    assert [first["views"][0]["status"], second["views"][0]["status"]] == ["unchanged", "published"]
    assert plan.execute({}) == []
    assert_zones(lake)


@pytest.mark.thorough
@pytest.mark.parametrize("emptying", ["TRUNCATE TABLE {}", "ALTER TABLE {} DROP PARTITION 202610"])
def test_a_summing_table_of_a_view_that_somebody_emptied_is_noticed(trips_lake: Lake, emptying: str) -> None:
    lake = trips_lake
    columns = "month Date, zone String, trips UInt64, fares Decimal(38, 2), ids AggregateFunction(uniq, UInt64)"
    create_view(lake, columns=columns, engine="SummingMergeTree")
    lake.upload(FIRST)
    lake.load(views="follow")
    assert_zones(lake)
    lake.on_node(0, emptying.format(f"{lake.database}.zones"))
    with pytest.raises(AirflowFailException, match=r"zones_view cannot follow .* the partition was changed since"):
        lake.load(views="follow")
    result = lake.load(views="follow", on_target_changed="reload")
    assert (result["status"], result["views"][0]["status"]) == ("unchanged", "published")
    assert_zones(lake)


def test_a_view_that_fails_leaves_its_base_published_and_a_retry_loads_it_alone(trips_lake: Lake) -> None:
    lake = trips_lake
    stops = f"throwIf((SELECT count() FROM {lake.database}.stop) > 0 * length(zone))"
    run(lake, "CREATE TABLE taxi.stop (x UInt8) ENGINE = MergeTree ORDER BY x")
    create_view(lake, select=f"SELECT month, zone, trips + {stops} AS trips, fares, ids FROM ({ZONES})")
    lake.upload(FIRST)
    run(lake, "INSERT INTO taxi.stop VALUES (1)")
    with pytest.raises(Exception, match="throwIf"):
        lake.load(views="follow")
    assert lake.facts() == FIRST.facts(PERIOD)
    run(lake, "TRUNCATE TABLE taxi.stop")
    result = lake.load(views="follow")
    assert (result["status"], result["views"][0]["status"]) == ("unchanged", "published")
    assert_zones(lake)


@pytest.mark.thorough
def test_a_deferred_load_fills_the_views_once_it_is_published(trips_lake: Lake, gate: Gate) -> None:
    lake = trips_lake
    create_view(lake)
    lake.upload(FIRST)
    deferred = deferring.start(lake, views="follow", **gate.options)
    gate.open()
    result = deferred.resume()
    assert (result["status"], result["views"][0]["status"]) == ("published", "published")
    assert_zones(lake)


def create_events(lake: Lake) -> None:
    """Create a base by day, and load it from now on."""
    lake.table = "events"
    run(
        lake,
        "CREATE TABLE taxi.events (id UInt64, pickup_at DateTime('UTC'), zone String, fare Decimal(10, 2)) "
        "ENGINE = MergeTree PARTITION BY toDate(pickup_at) ORDER BY id",
    )


def put_events(lake: Lake, day: str, number: int) -> None:
    lines = [f"{number * 10 + row},{day} 0{row}:00:00,zone {row % 2},{row}.50" for row in range(5)]
    lake.put(f"events/{day}/{number}.csv", "\n".join(["id,pickup_at,zone,fare", *lines]).encode())


@pytest.mark.thorough
def test_days_make_up_a_month_of_a_view(lake: Lake) -> None:
    create_events(lake)
    create_view(lake, base="events", select=ZONES_OF_EVENTS)
    where = {"key": "events/{YYYY-MM-DD}/*.csv", "period": None, "views": "follow"}
    for number, day in enumerate(("2026-10-01", "2026-10-02", "2026-11-01", "2026-10-02")):
        put_events(lake, day, number)
        (result,) = lake.load(periods=[day], **where)
        assert [(each["period"], each["status"]) for each in result["views"]] == [(day[:7], "published")]
    made_of = ZONES_OF_EVENTS.format(base=f"{lake.database}.events")
    assert made(lake) == lake.on_every_node(f"SELECT {MERGED} FROM ({made_of}) GROUP BY month, zone ORDER BY ALL")


@pytest.mark.thorough
def test_a_run_that_reloads_a_table_reloads_that_one_and_what_follows_it(trips_lake: Lake) -> None:
    lake = trips_lake
    create_view(lake)
    periods = ["2026-09", PERIOD]
    for period in periods:
        lake.upload(FIRST, period)
    lake.load(period=None, periods=periods, views="follow")

    def reloaded(name: str) -> list[tuple[str, list[str]]]:
        conf = {"chs3_reload": {"database": lake.database, "table": name, "periods": [PERIOD]}}
        where = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/", "table": f"{lake.database}.trips"}
        plan = PlanLoadsOperator(task_id="plan", **where, periods=periods, cluster=lake.cluster.name, views="follow")
        assert plan.execute(context_of(conf)) == [PERIOD]
        results = lake.operator(period=None, periods=periods, views="follow").execute(context_of(conf))
        return [(result["status"], [view["status"] for view in result["views"]]) for result in results]

    assert reloaded("trips") == [("skipped", []), ("published", ["published"])]
    assert reloaded("zones") == [("skipped", []), ("skipped", ["published"])]
    assert_zones(lake)


@pytest.mark.thorough
def test_a_view_follows_a_base_that_was_restored(trips_lake: Lake) -> None:
    lake = trips_lake
    create_view(lake)
    for trips in (FIRST, SECOND):
        lake.upload(trips)
        lake.load(views="follow", keep_versions=1)
    RestorePeriodsOperator(task_id="undo", periods=[PERIOD], **lake.target).execute({})
    assert lake.facts() == FIRST.facts(PERIOD)
    keys = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/"}
    plan = PlanLoadsOperator(task_id="plan", **keys, **lake.target, periods=[PERIOD], views="follow")
    assert plan.execute({}) == [PERIOD]
    result = lake.load(views="follow", keep_versions=1)
    assert (result["status"], result["views"][0]["status"]) == ("skipped", "published")
    assert_zones(lake)
    assert lake.facts() == FIRST.facts(PERIOD)
    assert plan.execute({}) == []


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_loads_of_days_at_once_fill_their_month_of_a_view(lake: Lake) -> None:
    create_events(lake)
    create_view(lake, base="events", select=ZONES_OF_EVENTS.replace("sum(fare)", "sum(fare + sleepEachRow(0.05))"))
    days = [f"2026-10-{day:02}" for day in range(1, 6)]
    for number, day in enumerate(days):
        put_events(lake, day, number)

    def outcome(day: str) -> tuple[str, ...]:
        result = lake.load(key="events/{YYYY-MM-DD}/*.csv", period=day, views="follow")
        return (result["status"], *(each["status"] for each in result["views"]))

    with ThreadPoolExecutor(len(days)) as pool:
        outcomes = list(pool.map(outcome, days))
    assert {of_day for of_day, _ in outcomes} == {"published"}
    assert {of_month for _, of_month in outcomes} <= {"published", "unchanged"}
    made_of = ZONES_OF_EVENTS.format(base=f"{lake.database}.events")
    assert made(lake) == lake.on_every_node(f"SELECT {MERGED} FROM ({made_of}) GROUP BY month, zone ORDER BY ALL")
    assert lake.left_behind() == []
