"""How much is sent to each node: more would make loads on many nodes slow before anybody notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from airflow_provider_chs3.client.connection import Address
from tests.integration.load.adding import add_a_file, stop_merges
from tests.integration.plans import plan
from tests.support.counting import is_within, of_nodes, opened, sent
from tests.support.killing import on_no_clock
from tests.support.merge_sensors import look
from tests.support.several_periods import PERIODS, Periods, periods

#: Fixtures.
__all__ = ["opened", "periods", "sent"]

pytestmark = pytest.mark.three_nodes

#: Most statements to the node that records a load, and to each other one.
MOST = {"first": (21, 17), "unchanged": (6, 5), "new file": (27, 21)}
#: More for keeping versions of what is replaced, however many periods; and one for each table that is dropped.
KEPT = 3
#: Most connections to the node that the others are found by, and to each other one.
OPENED = {"first": (5, 2), "unchanged": (3, 2), "new file": (6, 3)}
#: A night in which one of several periods got a file: the others are compared in the same statements.
OF_A_NIGHT = (30, 24)
#: A load of several periods, however many; one statement more for those without rows on a node.
OF_SEVERAL = (28, 23)
#: A plan, and one look of the merge sensor. If a plan looked up on the cluster, servers would ask each other for
#: nine statements on each node.
OF_A_PLAN, OF_A_POLL = (3, 3), (3, 3)


@pytest.fixture(autouse=True)
def _on_no_clock() -> Iterator[None]:
    """Statements that depend on how long the machine takes are not counted."""
    with on_no_clock():
        yield


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", MOST)
def test_a_load_of_one_period(
    periods: Periods, sent: Counter[Address | None], opened: Counter[Address], kind: str
) -> None:
    if kind != "first":
        periods.load("2026-10")
    if kind == "new file":
        stop_merges(periods)
        add_a_file(periods)
    sent.clear()
    opened.clear()
    status = periods.statuses("2026-10")["2026-10"]
    assert status == ("unchanged" if kind == "unchanged" else "published")
    assert is_within(sent, MOST[kind]), of_nodes(sent)
    assert is_within(opened, OPENED[kind]), of_nodes(opened)


@pytest.mark.thorough
@pytest.mark.parametrize("nights", [1, 2])
def test_a_load_that_keeps_a_version(periods: Periods, sent: Counter[Address | None], nights: int) -> None:
    periods.load("2026-10")
    stop_merges(periods)
    for night in range(nights):
        periods.put("2026-10", f"c{night}")
        sent.clear()
        assert periods.load("2026-10", keep_versions=1)["2026-10"]["status"] == "published"
    # Create, attach and look; and drop the version of the night before.
    more = KEPT + nights - 1
    assert is_within(sent, tuple(most + more for most in MOST["new file"])), of_nodes(sent)


def test_a_load_of_several_periods_a_plan_a_poll_and_a_night(periods: Periods, sent: Counter[Address | None]) -> None:
    sent.clear()
    assert list(periods.statuses().values()) == ["published"] * 4
    assert is_within(sent, OF_SEVERAL), of_nodes(sent)
    sent.clear()
    assert plan(periods.lake, key="n/{YYYY-MM}/", periods=list(PERIODS)) == []
    assert is_within(sent, OF_A_PLAN), of_nodes(sent)
    sent.clear()
    look(periods.lake)
    assert is_within(sent, OF_A_POLL), of_nodes(sent)
    stop_merges(periods)
    add_a_file(periods)
    sent.clear()
    assert Counter(periods.statuses().values()) == {"unchanged": 3, "published": 1}
    assert is_within(sent, OF_A_NIGHT), of_nodes(sent)
