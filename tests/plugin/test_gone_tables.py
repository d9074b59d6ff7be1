"""A table that was dropped or renamed stays on the page until its periods are forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.operators.ledger import ForgetPeriodsOperator
from tests.plugin import runs
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import TASK, TRIPS, periods
from tests.plugin.runs import ACTIONS
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake
from tests.support.ledger_tasks import where

LATER = "2026-11"


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    for period in (PERIOD, LATER):
        trips_lake.upload(TRIPS, period)
        trips_lake.operator(period=period).execute({"ti": TASK})
    return trips_lake


def forget(lake: Lake, *names: str) -> list[dict[str, Any]]:
    return ForgetPeriodsOperator(task_id="forget", table=lake.table, periods=names, **where(lake)).execute({})


def test_a_table_is_told_by_its_new_name_or_as_dropped_until_it_is_forgotten(
    as_user: AsUser, airflow_api: Any, loaded: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine"})
    name = f"{loaded.database}.trips"
    loaded.on_every_node(f"RENAME TABLE {name} TO {name}_old")
    period = periods(as_user, loaded)[PERIOD]
    assert period["state"] == "gone"
    assert period["why"].startswith(f"the table is now called {name}_old")
    loaded.on_every_node(f"RENAME TABLE {name}_old TO {name}")
    assert {each["state"] for each in periods(as_user, loaded).values()} == {"published"}
    loaded.on_every_node(f"DROP TABLE {name} SYNC")
    found = periods(as_user, loaded)
    assert {month: (each["state"], each["rows"], each["objects"]) for month, each in found.items()} == {
        PERIOD: ("gone", 0, 3),
        LATER: ("gone", 0, 3),
    }
    assert "the table was dropped or renamed" in found[PERIOD]["why"]
    assert found[PERIOD]["task"]["dag_id"] == "mine"
    assert forget(loaded, PERIOD) == [{"period": PERIOD, "was_known": True, "rows": 0}]
    assert set(periods(as_user, loaded)) == {LATER}
    assert [each["was_known"] for each in forget(loaded, PERIOD, LATER)] == [False, True]
    assert periods(as_user, loaded) == {}
    # Forgotten once, it is as if it had never been there.
    with pytest.raises(Exception, match="does not exist"):
        forget(loaded, LATER)


@pytest.mark.thorough
def test_a_period_that_was_forgotten_before_is_not_told(as_user: AsUser, loaded: Lake) -> None:
    forget(loaded, LATER)
    loaded.on_every_node(f"DROP TABLE {loaded.database}.trips SYNC")
    assert set(periods(as_user, loaded)) == {PERIOD}


@pytest.mark.thorough
def test_a_range_of_periods_is_forgotten_by_one_command(
    as_user: AsUser, loaded: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded.on_every_node(f"DROP TABLE {loaded.database}.trips SYNC")
    capsys.readouterr()
    named = ["--table", "trips", "--database", loaded.database, "--cluster", loaded.cluster.name]
    assert main(["forget", "--output=json", *named, "--from", PERIOD, "--to", LATER]) == 0
    assert [load["was_known"] for load in json.loads(capsys.readouterr().out)] == [True, True]
    assert periods(as_user, loaded) == {}


@pytest.mark.thorough
def test_the_page_says_so_and_offers_to_forget_it(loaded: Lake, open_page: Open) -> None:
    runs.make_known(ACTIONS)
    loaded.on_every_node(f"DROP TABLE {loaded.database}.trips SYNC")
    page, troubles = open_page(PAGE, role="admin")
    needs = page.get_by_role("region", name="What needs attention")
    assert "2 periods need attention" in needs.inner_text()
    assert "The table was dropped or renamed" in needs.inner_text()
    keep(page, "a-table-is-gone")
    needs.get_by_role("button", name=f"Forget {loaded.database}.trips").click()
    dialog = page.get_by_role("alertdialog", name=f"Forget: {loaded.database}.trips")
    assert "removes 2 periods of this table" in dialog.inner_text()
    keep(page, "forget-a-table")
    dialog.get_by_role("button", name="Forget", exact=True).click()
    dialog.get_by_role("status").get_by_text("chs3_period_actions").wait_for()
    assert runs.runs(ACTIONS)[-1].conf["period"] == f"{PERIOD},{LATER}"
    assert troubles == []
