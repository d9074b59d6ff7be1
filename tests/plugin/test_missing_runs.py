"""Periods whose DAG does not come to load them: it is paused, or its run is overdue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_chs3.plugin.answers.missing_runs import Schedule, mark_waiting
from airflow_provider_chs3.plugin.observation.periods import UnreadPeriods
from tests.plugin import runs
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import fail, loaded, periods
from tests.plugin.runs import LOADER
from tests.plugin.scheduled_tasks import leave_unfinished, load, set_dag, task
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

#: Fixtures.
__all__ = ["task"]
#: The DAG is due for a run of that period.
DUE = {"next_dagrun_data_interval_start": datetime.fromisoformat(f"{PERIOD}-05T03:00:00+00:00")}
LONG_AGO, JUST_NOW = timedelta(hours=1), timedelta(minutes=1)


def due(ago: timedelta) -> dict[str, Any]:
    return DUE | {"next_dagrun_create_after": datetime.now(UTC) - ago}


@pytest.mark.thorough
def test_a_period_that_the_next_load_would_change_is_paused_while_its_dag_is_paused(
    as_user: AsUser, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_unfinished(trips_lake, task, monkeypatch)
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "unfinished"
    set_dag(is_paused=True)
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "paused"
    assert period["why"].startswith(f"the DAG {LOADER}, which loaded it last, is paused; its newest load ended without")
    trips_lake.load()
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "published"


@pytest.mark.thorough
def test_a_period_that_needs_no_load_is_not_paused(as_user: AsUser, trips_lake: Lake, task: Any) -> None:
    load(trips_lake, task)
    set_dag(is_paused=True, **due(LONG_AGO))
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "published"


def test_the_period_of_a_run_that_was_due_and_was_not_created_is_late(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(trips_lake, task)
    # Another period, and one that somebody else loaded.
    loaded(trips_lake, "2026-11")
    found = {}
    for name, ago in (("just now", JUST_NOW), ("long ago", LONG_AGO)):
        set_dag(**due(ago))
        found[name] = {period: each["state"] for period, each in periods(as_user, trips_lake).items()}
    assert found == {
        "just now": {PERIOD: "published", "2026-11": "published"},
        "long ago": {PERIOD: "late", "2026-11": "published"},
    }
    period = periods(as_user, trips_lake)[PERIOD]
    assert f"a run of the DAG {LOADER} was due at {period['since'][:16]} UTC" in period["why"]
    # Nothing of a DAG is told to who may not read it.
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"other"})
    period = periods(as_user, trips_lake)[PERIOD]
    assert (period["state"], LOADER in str(period)) == ("published", False)


@pytest.mark.parametrize(
    ("periods", "late"),
    [
        # The night's own day is not there yet; nor is its hour.
        (["2026-10-03", "2026-10-04", "2026-10-06"], "2026-10-04"),
        (["2026-10-04", "2026-10-05"], "2026-10-05"),
        (["2026-10-05T02Z", "2026-10-05T03Z", "2026-10-05T04Z"], "2026-10-05T03Z"),
        (["2026-W40", "2026-W41", "2026-W42"], "2026-W41"),
        (["2026-09", "2026-10", "2026-11"], "2026-10"),
        (["2026-Q3", "2026-Q4"], "2026-Q4"),
        (["2026"], "2026"),
        (["all"], "all"),
    ],
)
def test_of_any_length_the_period_of_the_run_or_the_last_before_it_is_late(periods: list[str], late: str) -> None:
    assert late_of(periods) == [late]


@pytest.mark.parametrize(
    ("periods", "are_newest", "late"),
    [
        (["2026-10-04", "2026-10-05", "2026-10-06"], True, ["2026-10-05"]),
        # It is not there yet.
        (["2026-10-03", "2026-10-04"], True, ["2026-10-04"]),
        # It may be among those that are not read, as the page has one of long ago that needs somebody.
        (["2024-01-01", "2026-10-06", "2026-10-07"], True, []),
        (["2026-10-06", "2026-10-07"], True, []),
        # Further down, too, it is told.
        (["2026-10-04", "2026-10-05"], False, ["2026-10-05"]),
        (["2026-10-03", "2026-10-04"], False, []),
    ],
)
def test_of_a_table_whose_periods_are_not_all_read_no_other_period_is_late_in_its_place(
    periods: list[str], are_newest: bool, late: list[str]
) -> None:
    assert late_of(periods, unread=100, are_newest=are_newest) == late


@pytest.mark.parametrize("periods", [["2026-10-05"], ["2026-10-04"]])
def test_a_day_is_late_before_all_are_read_only_if_it_is_the_awaited_one(periods: list[str]) -> None:
    # Who filled the fifth by hand has no record of it.
    assert late_of(periods, are_some=True) == [day for day in periods if day == "2026-10-05"]


def late_of(periods: list[str], *, unread: int = 0, are_newest: bool = True, are_some: bool = False) -> list[str]:
    """The late ones of some published periods of a DAG whose run for 5 October was due an hour ago."""
    now = datetime(2026, 10, 6, 6, tzinfo=UTC)
    schedule = Schedule(
        is_paused=False,
        due_at=now - LONG_AGO,
        due_for=datetime(2026, 10, 5, 3),
        is_there=True,
        is_broken=False,
        is_awaited=True,
    )
    task = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    rows = [{"period": period, "state": "published", "why": "as published", "task": task} for period in periods]
    seen = [{"are_some": are_some, "tables": [{"periods": rows, "unread": UnreadPeriods(published=unread)}]}]
    mark_waiting(seen, {"d": schedule}, now, are_newest=are_newest)
    return [str(row["period"]) for row in rows if row["state"] == "late"]


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(DagModel, "exceeds_max_non_backfill"), reason="nothing is due then before 3.2")
def test_a_dag_with_as_many_runs_as_it_may_have_is_not_late(as_user: AsUser, trips_lake: Lake, task: Any) -> None:
    load(trips_lake, task)
    set_dag(**due(LONG_AGO), exceeds_max_non_backfill=True)
    try:
        assert periods(as_user, trips_lake)[PERIOD]["state"] == "published"
    finally:
        set_dag(exceeds_max_non_backfill=False)
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "late"


@pytest.mark.thorough
def test_a_paused_period_is_among_those_that_need_somebody_with_a_link_to_its_dag(
    as_user: AsUser, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch, open_page: Open
) -> None:
    leave_unfinished(trips_lake, task, monkeypatch)
    set_dag(is_paused=True)
    page, troubles = open_page(PAGE)
    needs = page.get_by_role("region", name="What needs attention")
    assert "1 period needs attention" in needs.inner_text()
    assert "Its DAG is paused" in needs.inner_text()
    page.get_by_role("button", name=f"{PERIOD}: paused").click()
    page.get_by_role("dialog").get_by_text(f"{LOADER}, which loaded it last, is paused").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    needs.get_by_role("link", name=LOADER).click()
    page.wait_for_url(f"**/dags/{LOADER}")
    assert troubles == []
    # The next load removes what the killed one left.
    trips_lake.load()


def is_paused() -> bool:
    with create_session() as session:
        return bool(session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == LOADER)))


@pytest.mark.thorough
def test_a_paused_period_is_let_go_by_who_may_edit_its_dag(
    as_user: AsUser, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch, open_page: Open
) -> None:
    leave_unfinished(trips_lake, task, monkeypatch)
    set_dag(is_paused=True)
    page, troubles = open_page(PAGE, role="viewer")
    needs = page.get_by_role("region", name="What needs attention")
    refused = f"Airflow does not let you edit DAG {LOADER}: ask its owner, airflow, or somebody with the permission."
    needs.get_by_text(refused).wait_for()
    assert needs.get_by_role("button").all_inner_texts() == ["Open"]
    needs.get_by_role("button").click()
    actions = page.get_by_role("group", name=f"Actions on {PERIOD}")
    actions.get_by_text(refused).wait_for()
    assert actions.get_by_role("button").count() == 0
    keep(page, "paused-for-a-viewer")
    assert troubles == []
    page, troubles = open_page(PAGE, role="admin")
    page.get_by_role("button", name=f"Unpause {trips_lake.database}.trips {PERIOD}").click()
    dialog = page.get_by_role("alertdialog", name=f"Unpause: {trips_lake.database}.trips {PERIOD}")
    assert "with catchup, all runs that were due while it was paused" in dialog.inner_text()
    assert is_paused()
    dialog.get_by_role("button", name="Unpause", exact=True).click()
    dialog.get_by_role("status").get_by_text(f"Unpaused: DAG {LOADER}.").wait_for()
    assert not is_paused()
    keep(page, "unpause-as-admin")
    assert runs.audited(LOADER)[-1][1] == "admin"
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"{PERIOD}: unfinished").wait_for()
    assert page.get_by_text("No period needs attention.").is_visible()
    assert troubles == []
    # The next load removes what the killed one left.
    trips_lake.load()


@pytest.mark.thorough
def test_a_late_period_says_when_its_run_was_due_and_needs_nobody(
    as_user: AsUser, trips_lake: Lake, task: Any, open_page: Open
) -> None:
    load(trips_lake, task)
    set_dag(**due(LONG_AGO))
    page, troubles = open_page(PAGE)
    page.get_by_text("No period needs attention.").wait_for()
    page.get_by_role("button", name=f"{PERIOD}: late").click()
    page.get_by_role("dialog").get_by_text(f"a run of the DAG {LOADER} was due at").wait_for()
    assert troubles == []


@pytest.mark.thorough
def test_of_which_dags_the_user_may_start_runs_is_asked_only_where_a_period_needs_one(
    as_user: AsUser, trips_lake: Lake, task: Any
) -> None:
    def allowed(role: str) -> list[Any]:
        found = as_user(role).get("/chs3/api/periods").raise_for_status().json()
        return [found["startable_dags"], found["editable_dags"]]

    load(trips_lake, task)
    assert [allowed(role) for role in ("admin", "viewer")] == [[[], []], [[], []]]
    fail(trips_lake, task)
    assert [allowed(role) for role in ("admin", "viewer")] == [[[LOADER], []], [[], []]]
