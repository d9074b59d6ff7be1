"""The page while nodes or whole connections do not answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.plugin.answers.periods import missed_nodes
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.processes import free_ports
from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin.fixture_types import Open
from tests.plugin.period_loads import loaded
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    pass


EARLIER = "2026-09"


@pytest.fixture
def two_periods(own_lake: Lake) -> Lake:
    """Periods whose rows are on both nodes."""
    own_lake.create_table()
    loaded(own_lake)
    own_lake.upload(Trips(rows_per_period=1_200, files_per_period=3), EARLIER)
    own_lake.load(period=EARLIER)
    return own_lake


def rows_on_first_node(lake: Lake, period: str) -> int:
    """Which node reads a file, and so has its rows, differs from load to load."""
    asked = f"SELECT count() FROM {lake.database}.trips WHERE formatDateTime(pickup_at, '%Y-%m') = '{period}'"
    return int(lake.on_node(0, asked)[0][0])


@pytest.mark.thorough
def test_bars_of_a_node_that_is_down_are_lower_bounds_and_its_row_says_what_to_do(
    own_cluster: ClickHouseCluster, two_periods: Lake, open_page: Open
) -> None:
    earlier, later = (rows_on_first_node(two_periods, period) for period in (EARLIER, PERIOD))
    least, most = sorted((earlier, later))
    own_cluster.kill(1)
    page, troubles = open_page(f"{PAGE}?strip=rows")
    second = own_cluster.nodes[1]
    without = f"without {second.host}:{second.tcp_port}, which does not answer"
    strip = page.get_by_role("toolbar", name=f"Periods of {two_periods.database}.trips")
    strip.wait_for()
    assert strip.get_by_role("button").evaluate_all(
        "cells => cells.map((cell) => [cell.title, cell.classList.contains('least')])"
    ) == [
        [f"{EARLIER}: published, at least {earlier:,} rows, {without}", True],
        [f"{PERIOD}: published, at least {later:,} rows, {without}", True],
    ]
    legend = page.get_by_role("note", name="Legend").inner_text()
    assert "a lower bound: a node does not answer" in legend
    assert f"Least ≥ {least:,} rows, most ≥ {most:,} rows" in legend
    # Once, with what to do.
    assert page.get_by_role("note", name="What does not answer").count() == 0
    keep(page, "a-node-is-down")
    needs = page.get_by_role("region", name="What needs attention").get_by_role("listitem")
    assert needs.first.get_attribute("aria-label") == f"Node {second.host}:{second.tcp_port} is down"
    needs.first.get_by_text(f"check that {second.host}:{second.tcp_port} is up").wait_for()
    assert "the states of periods come from the other nodes" in needs.first.inner_text()
    assert page.get_by_role("alert").count() == 0
    page.get_by_role("radiogroup", name="Strips show").get_by_text("Duration").click()
    page.get_by_role("note", name="Legend").get_by_text("Insert time").wait_for()
    # A load took as long as it took, whoever answers.
    assert strip.locator(".least").count() == 0
    assert troubles == []
    own_cluster.restart(1)


def test_rows_of_a_node_are_missed_only_if_no_replica_of_its_shard_answers() -> None:
    nodes = {(shard, replica): Node(shard, replica, "host", 9000) for shard in (1, 2) for replica in (1, 2)}
    down = [nodes[1, 2], nodes[2, 1], nodes[2, 2]]
    assert missed_nodes([nodes[1, 1]], down) == {nodes[2, 1], nodes[2, 2]}


@pytest.mark.thorough
def test_connections_that_do_not_answer_are_loud_only_if_their_tables_are_not_known(
    own_cluster: ClickHouseCluster, two_periods: Lake, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = open_page(PAGE)
    page.get_by_role("button", name=f"{PERIOD}: published").wait_for()
    for number in (0, 1):
        own_cluster.kill(number)
    dead = narrow_connection(own_cluster)
    for name, port in zip(("CHS3_ONE", "CHS3_TWO"), free_ports(2), strict=True):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(dead | {"port": port, "extra": {}}))
    page.reload()
    loud = page.get_by_role("alert")
    loud.wait_for()
    assert loud.inner_text().splitlines()[0] == "2 connections are unreachable: their tables are not shown"
    loud.get_by_text("chs3_one, chs3_two").click()
    assert "chs3_default" not in loud.inner_text()
    quiet = page.get_by_role("note", name="What does not answer")
    assert quiet.inner_text().startswith("1 connection does not answer: some of the data below is from 20")
    # "These", as nobody knows about the others.
    assert page.get_by_text("None of these periods needs attention.").is_visible()
    keep(page, "connections-are-down")
    quiet.locator("summary").click()
    quiet.get_by_text("Connection chs3_default").wait_for()
    assert page.get_by_role("button", name=f"{PERIOD}: published").is_visible()
    for number in (0, 1):
        own_cluster.restart(number)
