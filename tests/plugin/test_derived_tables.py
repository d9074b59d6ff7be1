"""The page on tables that are loaded from other tables of the same servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.plugin.answers.schemas import Periods
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.clickhouse_to_clickhouse import ClickHouseToClickHouseOperator
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, loaded
from tests.sources.select_lake import SelectLake
from tests.support.browsing import PAGE, keep
from tests.support.few_nodes import cluster_for
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page


#: Keys of a base, each with that of a table by longer periods, or as long ones, and a period of it.
KEYS = [
    ("toYYYYMM(at)", "toYYYYMM(month)", "2026-01"),
    ("toDate(at)", "toYYYYMM(month)", "2026-01"),
    ("toStartOfHour(at)", "toYYYYMM(month)", "2026-01"),
    ("(zone, toYYYYMM(at))", "toYYYYMM(month)", "2026-01"),
    ("toMonday(at)", "", "all"),
]


def tables(as_user: AsUser) -> dict[str, dict[str, Any]]:
    answer = as_user("viewer").get("/chs3/api/periods").raise_for_status()
    found = answer.json()
    assert Periods.model_validate_json(answer.content, strict=True).model_dump(mode="json") == found
    return {each["table"]: each for each in found["connections"][0]["tables"]}


def states(as_user: AsUser) -> dict[str, str]:
    return {table["period"]: table["state"] for table in tables(as_user)["zones"]["periods"]}


@pytest.fixture
def chs3_cluster(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless a test is marked `three_nodes`."""
    return cluster_for(request)


@pytest.fixture
def create(chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SelectLake]:
    def of(**options: Any) -> SelectLake:
        return SelectLake.create(chs3_cluster, chs3_database, monkeypatch, **options)

    return of


@pytest.mark.thorough(but=1, first=2)
@pytest.mark.parametrize(("base_key", "key", "period"), KEYS)
def test_a_period_is_stale_from_a_change_of_its_base_until_a_load_finds_it(
    as_user: AsUser, create: Callable[..., SelectLake], base_key: str, key: str, period: str
) -> None:
    lake = create(base_key=base_key, key=key)
    lake.put("2026-01-05")
    options = {"policies": {"reload_whole_table": True}} if period == "all" else {}
    assert lake.load(period, **options) == ["published"]
    assert states(as_user) == {period: "published"}
    assert tables(as_user)["zones"]["base"] == f"{lake.database}.base"
    # Merges change nothing, to a load either.
    lake.put("2026-01-06", first=1_000)
    assert states(as_user) == {period: "stale"}
    assert lake.load(period, **options) == ["published"]
    lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.base FINAL")
    assert states(as_user) == {period: "published"}
    assert lake.load(period, **options) == ["unchanged"]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_only_the_periods_whose_base_changed_are_stale(as_user: AsUser, create: Callable[..., SelectLake]) -> None:
    lake = create()
    for day in ("2026-01-05", "2026-02-05"):
        lake.put(day)
    lake.load("2026-01", "2026-02")
    lake.put("2026-02-07", first=500, node=0)
    found = tables(as_user)["zones"]
    assert [(each["period"], each["state"]) for each in found["periods"]] == [
        ("2026-01", "published"),
        ("2026-02", "stale"),
    ]
    assert found["periods"][1]["why"] == f"its base, {lake.database}.base, has changed since it was loaded"
    assert lake.load("2026-01", "2026-02") == ["unchanged", "published"]


@pytest.mark.thorough
def test_nobody_knows_what_has_become_of_a_base_that_is_gone(
    as_user: AsUser, create: Callable[..., SelectLake]
) -> None:
    lake = create()
    lake.put("2026-01-05")
    lake.load("2026-01")
    lake.on_every_node(f"DROP TABLE {lake.database}.base SYNC")
    assert states(as_user) == {"2026-01": "published"}
    assert tables(as_user)["zones"]["base"] is None


@pytest.fixture
def zones(trips_lake: Lake) -> Callable[[], None]:
    """Loads a month of a table that is made of the trips, whose month is loaded, too."""
    database = trips_lake.database
    loaded(trips_lake)
    select = f"SELECT toStartOfMonth(pickup_at) AS month, count() AS trips FROM {database}.trips GROUP BY month"
    key = "PARTITION BY toYYYYMM(month) ORDER BY month"
    trips_lake.on_every_node(
        f"CREATE TABLE {database}.a_zones (month Date, trips UInt64) ENGINE = SummingMergeTree {key}"
    )
    trips_lake.on_every_node(f"CREATE MATERIALIZED VIEW {database}.a_view TO {database}.a_zones AS {select}")
    names = {"database": database, "table": "a_zones", "cluster": trips_lake.cluster.name}
    operator = ClickHouseToClickHouseOperator(task_id="zones", view=f"{database}.a_view", periods=[PERIOD], **names)
    return lambda: operator.execute({"ti": TASK})


@pytest.mark.thorough
def test_a_derived_table_stands_below_its_base_and_says_what_is_stale(
    trips_lake: Lake, zones: Callable[[], None], open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    zones()
    trips_lake.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    trips_lake.load()
    page, troubles = open_page(PAGE, viewport={"width": 1440, "height": 900})
    page.get_by_role("button", name=f"{PERIOD}: stale").wait_for()
    rows = page.get_by_role("list", name="Tables").get_by_role("listitem")
    names = [each.get_by_role("heading").inner_text() for each in rows.all()]
    assert names == [f"{trips_lake.database}.trips", f"{trips_lake.database}.a_zones"]
    origin = f"Derived from {trips_lake.database}.trips by the view {trips_lake.database}.a_view"
    assert origin in rows.nth(1).inner_text()
    keep(page, "derived")
    page.get_by_role("button", name=f"{PERIOD}: stale").click()
    panel = page.get_by_role("dialog")
    panel.get_by_text(origin).wait_for()
    panel.get_by_text(f"Its base, {trips_lake.database}.trips, has changed since it was loaded.").wait_for()
    keep(page, "derived-panel")
    assert troubles == []
