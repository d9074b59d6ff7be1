"""Loads of workers that reach the nodes of a cluster through one load balancer alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.support import deferring
from tests.support.deferring import Gate, gate
from tests.support.killing import ONLY_THE_FIRST, Strike, kind_of, steps_of
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER, narrow_connection
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.proxies import GATEWAY_TIMEOUT, Gateway
from tests.support.several_periods import PERIODS, Periods, periods
from tests.support.strikes import Strikes

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

__all__ = ["gate", "periods"]

pytestmark = pytest.mark.three_nodes

OLD, NEW = Trips(rows_per_period=900, files_per_period=6), Trips(seed=2, rows_per_period=1_000, files_per_period=6)


def through(balancer: LoadBalancer, cluster: Cluster) -> str:
    connection = narrow_connection(cluster, through=balancer)
    return json.dumps(connection | {"extra": connection["extra"] | {"send_receive_timeout_seconds": 20}})


@pytest.fixture
def balancer(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadBalancer]:
    """Loads go through it alone."""
    with LoadBalancer.start(trips_lake.cluster) as started:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", through(started, trips_lake.cluster))
        yield started


@pytest.mark.thorough
def test_several_periods_and_what_is_added_to_them_are_loaded(balancer: LoadBalancer, periods: Periods) -> None:
    assert set(periods.statuses().values()) == {"published"}
    periods.put(PERIOD, "late", rows=30)
    of_other_file = periods.rows["2026-08"][41:]
    periods.put("2026-08", "a", rows=20)
    periods.rows["2026-08"] = of_other_file + periods.rows["2026-08"][-20:]
    results = periods.load()
    assert {period: each["status"] for period, each in results.items()} == dict.fromkeys(PERIODS, "unchanged") | {
        PERIOD: "published",
        "2026-08": "published",
    }
    assert results[PERIOD]["loaded_rows"] == 30
    assert periods.found() == periods.expected()


def test_a_worker_killed_as_it_publishes_is_followed_by_one_that_finishes(
    trips_lake: Lake, balancer: LoadBalancer
) -> None:
    trips_lake.upload(OLD)
    publish = next(step for step in steps_of(trips_lake.load) if step.name.startswith("Publish"))
    trips_lake.upload(NEW)
    Strike(0, ONLY_THE_FIRST, kind_of(publish)).kill_in(trips_lake.load)
    trips_lake.load()
    assert_exact(trips_lake, NEW)


def test_a_deferred_insert_is_watched_and_ended_through_the_door(
    trips_lake: Lake, balancer: LoadBalancer, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    deferring.hurry(monkeypatch)
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 0.1)
    trips_lake.upload(OLD)
    deferred = deferring.run(trips_lake, gate.options)
    balancer.cut()
    gate.open()
    assert deferred.resume()["status"] == "published"
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("answer", [GATEWAY_TIMEOUT, b""], ids=["504", "hangs up"])
def test_an_insert_goes_on_that_a_load_balancer_of_http_gave_up(
    trips_lake: Lake, balancer: LoadBalancer, monkeypatch: pytest.MonkeyPatch, gate: Gate, answer: bytes
) -> None:
    connection = narrow_connection(trips_lake.cluster, through=balancer)
    deferring.hurry(monkeypatch)
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 30)
    trips_lake.upload(OLD)
    with Gateway(*trips_lake.cluster.nodes, answer=answer) as gateway:
        extra = connection["extra"] | {"http_port": gateway.port}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection | {"extra": extra}))
        deferred = deferring.start(trips_lake, **gate.options)
        gate.open()
        result = deferred.resume()
    assert (result["status"], result["query_ids"]) == ("published", [deferred.trigger.query_id])
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough
def test_loads_whose_connections_are_cut_at_any_moment_end_in_the_objects_rows(
    trips_lake: Lake, balancer: LoadBalancer
) -> None:
    trips_lake.upload(NEW)
    started = time.monotonic()
    trips_lake.load()
    seconds, broken = time.monotonic() - started, 0
    for number in range(20):
        trips = (OLD, NEW)[number % 2]
        trips_lake.upload(trips)
        cut = Timer(seconds * number / 20, balancer.cut)
        cut.start()
        try:
            trips_lake.load()
        except ClickHouseConnectionError:
            broken += 1
        cut.join()  # else it might break the next load
        trips_lake.load()
        assert_exact(trips_lake, trips)
    assert broken


def test_a_sticky_balancer_stops_a_load_before_it_writes(trips_lake: Lake, balancer: LoadBalancer) -> None:
    balancer.stick()
    trips_lake.upload(OLD)
    with pytest.raises(ClickHouseConnectionError, match=r"none of \d+ connections led to this node: .* is sticky"):
        trips_lake.load()
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() == []


@pytest.mark.thorough
def test_a_server_that_is_down_stops_a_load_until_it_is_back(
    chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch, strikes: Strikes
) -> None:
    with (
        ClickHouseCluster.start(2, **WITH_NARROW_USER) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
        LoadBalancer.start(cluster) as balancer,
    ):
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", through(balancer, cluster))
        lake.create_table()
        lake.upload(OLD)
        lake.load()
        lake.upload(NEW)
        strikes.before("Publish", lambda: cluster.kill(1))
        down = f"{cluster.nodes[1].host}:{cluster.nodes[1].tcp_port}"
        for _ in range(2):
            with pytest.raises(ClickHouseConnectionError, match=f"{down}.* led to this node: .* It is down"):
                lake.load()
        cluster.restart(1)
        lake.load()
        assert_exact(lake, NEW)
