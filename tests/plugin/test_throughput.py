"""The page on the speed of real loads on a real cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, TRIPS, loaded, periods
from tests.plugin.watching import asked_as_watcher
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake
from tests.support.proxies import StorageProxy, slow
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.three_nodes


#: Loaded so, each file becomes a part.
FILES = Trips(rows_per_period=3000, files_per_period=6)
MANY_PARTS = {
    "min_insert_block_size_rows": 100,
    "min_insert_block_size_bytes": 0,
    "max_insert_block_size": 100,
    "max_block_size": 100,
}


def throughput(as_user: AsUser, **query: str | int) -> dict[str, Any]:
    """The loads as the page gets them."""
    found = as_user("viewer").get("/chs3/api/throughput", params=query).raise_for_status().json()
    assert found["days"] == query.get("days", 7)
    (connection,) = found["connections"]
    return connection


def of_lake(found: dict[str, Any], lake: Lake) -> dict[str, dict[str, Any]]:
    """The newest load of each period of the lake's table."""
    return {load["period"]: load for load in found["loads"] if load["database"] == lake.database}


@contextmanager
def merges_stopped(lake: Lake) -> Iterator[None]:
    """SYSTEM STOP MERGES stops those of tables that are there; staging has the target's settings, too."""
    lake.on_every_node(f"ALTER TABLE {lake.database}.trips MODIFY SETTING max_parts_to_merge_at_once = 1")
    yield
    lake.on_every_node(f"ALTER TABLE {lake.database}.trips RESET SETTING max_parts_to_merge_at_once")


def load_slowly(lake: Lake, s3: S3Endpoint, period: str) -> dict[str, Any]:
    """A load that waits for S3 again and again."""
    proxy = StorageProxy(s3.endpoint_url)
    proxy.fault = slow(1)
    try:
        lake.upload(Trips(rows_per_period=600, files_per_period=1), period)
        return lake.load(period=period, endpoint_url=proxy.endpoint_url)
    finally:
        proxy.close()


@pytest.mark.thorough
def test_loads_are_told_with_what_they_did_and_a_slow_one_with_where_its_time_went(
    as_user: AsUser, trips_lake: Lake, chs3_s3: S3Endpoint
) -> None:
    for period in ("2026-07", "2026-08"):
        loaded(trips_lake, period)
    trips_lake.upload(FILES, "2026-09")
    result = trips_lake.load(period="2026-09", settings=MANY_PARTS)
    load_slowly(trips_lake, chs3_s3, PERIOD)
    # Merges as the server would begin them.
    trips_lake.on_every_node(f"OPTIMIZE TABLE {trips_lake.database}.trips PARTITION ID '202609' FINAL")
    with asked_as_watcher(trips_lake):
        found = throughput(as_user)
    loads = of_lake(found, trips_lake)
    assert (found["error"], [node["silent"] for node in found["nodes"]]) == ("", [[]] * len(found["nodes"]))
    usual, odd = loads["2026-09"], loads[PERIOD]
    for name in ("rows", "objects", "source_bytes", "parts", "insert_seconds", "peak_memory_bytes", "seconds_by_step"):
        assert usual[name] == result[name], name
    assert usual["rows_per_second"] == pytest.approx(3000 / result["insert_seconds"], abs=1)
    assert usual["seconds_to_published"] == pytest.approx(sum(result["seconds_by_step"].values()))
    assert usual["merge_seconds"] > 0
    assert usual["seconds_to_healthy"] == usual["seconds_to_published"] + usual["merge_seconds"]
    assert odd["why_slow"].startswith("It took ")
    assert odd["storage_seconds"] > usual["storage_seconds"] + 0.5
    now = trips_lake.on_every_node("SELECT count() FROM system.parts WHERE active AND rows > 0 AND table = 'trips'")
    assert sorted(node["parts"][-1] for node in found["history"]["nodes"]) == sorted(rows[0][0] for rows in now)


@pytest.mark.thorough
def test_a_period_tells_its_own_parts_over_time(as_user: AsUser, trips_lake: Lake) -> None:
    trips_lake.upload(FILES, "2026-11")
    trips_lake.load(period="2026-11")
    trips_lake.upload(FILES)
    with merges_stopped(trips_lake):
        many = trips_lake.load(settings=MANY_PARTS)["parts"]
        # Changes within one second are one change.
        time.sleep(1.1)
    trips_lake.on_every_node(f"OPTIMIZE TABLE {trips_lake.database}.trips FINAL")
    query = {"conn_id": "chs3_default", "database": trips_lake.database, "table": "trips", "period": PERIOD}
    with asked_as_watcher(trips_lake):
        found = as_user("viewer").get("/chs3/api/parts", params=query).raise_for_status().json()
    counts = [[parts for _, parts in node["parts"]] for node in found["nodes"]]
    nodes = len(trips_lake.cluster.nodes)
    assert [node["error"] for node in found["nodes"]] == [""] * nodes
    assert [count[0] for count in counts] == [0] * nodes
    assert sum(max(count) for count in counts) == many > nodes
    assert sum(count[-1] for count in counts) <= nodes
    times = [at for node in found["nodes"] for at, _ in node["parts"]]
    assert found["begun_at"] <= min(times) < max(times) <= found["now"]


@pytest.mark.thorough
def test_parts_that_were_merged_before_the_log_began_do_not_count(own_lake: Lake, as_user: AsUser) -> None:
    own_lake.create_table()
    own_lake.upload(FILES)
    own_lake.on_every_node(f"ALTER TABLE {own_lake.database}.trips MODIFY SETTING old_parts_lifetime = 2")
    with merges_stopped(own_lake):
        own_lake.load(settings=MANY_PARTS)
    own_lake.on_every_node(f"OPTIMIZE TABLE {own_lake.database}.trips FINAL")
    own_lake.on_every_node("SYSTEM FLUSH LOGS")
    own_lake.on_every_node("TRUNCATE TABLE system.part_log")
    removed = (
        f"SELECT count() FROM system.parts WHERE NOT active AND database = '{own_lake.database}' AND table = 'trips'"
    )

    def is_removed() -> bool:
        # Left idle, a server looks for what it may remove ever more seldom; this wakes it.
        own_lake.on_every_node(f"SYSTEM START MERGES {own_lake.database}.trips")
        return not any(rows[0][0] for rows in own_lake.on_every_node(removed))

    wait_until(is_removed)
    with asked_as_watcher(own_lake):
        query = {"conn_id": "chs3_default", "database": own_lake.database, "table": "trips", "period": PERIOD}
        found = as_user("viewer").get("/chs3/api/parts", params=query).raise_for_status().json()
    # A node that was busy may have read no file.
    holding = [[min(rows, 1)] for rows in own_lake.rows_per_node()]
    assert [[parts for _, parts in node["parts"]] for node in found["nodes"]] == holding
    first = holding.index([1])
    (log,) = own_lake.on_node(first, "SELECT min(event_time) FROM system.part_log")
    assert found["nodes"][first]["parts"][0][0] == log[0].timestamp()


@pytest.mark.thorough
def test_a_period_whose_merges_lag_tells_its_parts_and_since_when(as_user: AsUser, trips_lake: Lake) -> None:
    trips_lake.upload(Trips(rows_per_period=6_000, files_per_period=60))
    with merges_stopped(trips_lake):
        parts = trips_lake.load(settings=MANY_PARTS)["parts"]
        period = periods(as_user, trips_lake)[PERIOD]
    assert (period["state"], period["parts"], period["since"]) == ("merging", parts, period["published_at"])
    assert period["why"].startswith("nothing has merged for ")
    told = [int(found) for found in re.findall(r"(\d+) parts", period["why"])]
    assert sum(told) <= parts
    assert min(told) > Thresholds().spare_parts


@pytest.mark.thorough
def test_parts_come_with_loads_and_go_with_merges(as_user: AsUser, own_lake: Lake) -> None:
    # The log of the shared servers forgets its oldest rows, and so begins later with each look.
    own_lake.create_table()
    own_lake.upload(FILES)
    with merges_stopped(own_lake):
        parts = own_lake.load(settings=MANY_PARTS)["parts"]
        with asked_as_watcher(own_lake):
            staged = throughput(as_user, days=1)
    own_lake.on_every_node(f"OPTIMIZE TABLE {own_lake.database}.trips FINAL")
    with asked_as_watcher(own_lake):
        merged = throughput(as_user, days=1)
    assert parts > len(own_lake.cluster.nodes)
    assert [node["parts"][0] for node in staged["history"]["nodes"]] == [
        node["parts"][0] for node in merged["history"]["nodes"]
    ]
    fewer = sum(node["backlog"][-1] for node in staged["history"]["nodes"]) - sum(
        node["backlog"][-1] for node in merged["history"]["nodes"]
    )
    assert fewer == parts - sum(bool(rows) for rows in own_lake.rows_per_node())


@pytest.mark.thorough
def test_the_task_of_a_load_is_named_to_those_who_may_read_its_dag(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.operator().execute({"ti": TASK})
    assert of_lake(throughput(as_user), trips_lake)[PERIOD]["task"] is None
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine", "other"})
    assert of_lake(throughput(as_user, dag_id="mine"), trips_lake)[PERIOD]["task"]["run_id"] == "run"
    assert of_lake(throughput(as_user, dag_id="other"), trips_lake) == {}


def test_the_loads_of_each_table_have_a_cost_and_a_log_that_the_user_may_not_read_is_told(
    as_user: AsUser, trips_lake: Lake
) -> None:
    trips_lake.upload(TRIPS)
    result = trips_lake.load()
    trips_lake.on_every_node("SYSTEM FLUSH LOGS")
    found = throughput(as_user)
    load = of_lake(found, trips_lake)[PERIOD]
    assert (load["rows"], load["merge_seconds"], found["history"]["nodes"]) == (600, None, [])
    assert load["storage_seconds"] > 0
    for node in found["nodes"]:
        (why,) = node["silent"]
        assert why.startswith("system.part_log: the connection's user may not read it")
    (cost,) = (cost for cost in found["costs"] if cost["database"] == trips_lake.database)
    assert cost == {
        **{"database": trips_lake.database, "table": "trips", "loads": 1, "rows": 600},
        "read_bytes": result["source_bytes"],
        "node_seconds": pytest.approx(result["insert_seconds"] * len(trips_lake.cluster.nodes), abs=0.1),
    }


@pytest.mark.thorough
def test_what_each_table_costs_is_on_the_page(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    page, troubles = open_page(f"{PAGE}?view=throughput", role="admin")
    row = page.get_by_role("region", name="Cost by table").get_by_role("row").last
    row.get_by_text(f"{trips_lake.database}.trips").wait_for()
    keep(page, "costs")
    assert troubles == []


def test_it_looks_back_over_a_few_ranges_only(as_user: AsUser) -> None:
    assert as_user("viewer").get("/chs3/api/throughput", params={"days": 8}).status_code == 422
