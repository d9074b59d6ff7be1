"""People act on periods through the page: Airflow does it, and asks who they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from airflow.utils.types import DagRunTriggeredByType

from airflow_provider_chs3.core.load.retry_policy import RELOAD_OPTIONS
from tests.plugin import runs
from tests.plugin.actions import act, loaded
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import TRIPS, fail
from tests.plugin.runs import ACTIONS, LOADER
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Fixtures.
__all__ = ["loaded"]
#: In milliseconds: the page asks again meanwhile.
A_MINUTE = 60_000


def open_period(
    open_page: Open, state: str = "published", role: str = "admin", **options: Any
) -> tuple[Page, list[str]]:
    page, troubles = open_page(PAGE, role=role, **options)
    page.get_by_role("button", name=f"{PERIOD}: {state}").click()
    return page, troubles


def test_a_reload_is_a_run_like_the_last_one_that_is_asked_for_just_this_period(loaded: Lake, open_page: Open) -> None:
    page, troubles = open_period(open_page, clock=True)
    page.get_by_role("button", name="Reload…").click()
    dialog = page.get_by_role("alertdialog", name=f"Reload: {loaded.database}.trips {PERIOD}")
    assert "loads only this period of this table again" in dialog.inner_text()
    assert dialog.get_by_role("checkbox").count() == 0
    keep(page, "reload-a-period")
    dialog.get_by_role("button", name="Cancel").press("Escape")
    dialog.wait_for(state="detached")
    assert len(runs.runs(LOADER)) == 1
    dialog = act(page, "Reload…", "Reload")
    last, run = runs.runs(LOADER)
    link = dialog.get_by_role("status").get_by_role("link", name=f"run {run.run_id} of DAG {LOADER}")
    assert link.get_attribute("href") == f"/dags/{LOADER}/runs/{quote(run.run_id, safe='')}"
    asked = {"database": loaded.database, "table": "trips", "periods": [PERIOD]}
    assert run.conf == {"bucket": "another", "chs3_reload": asked}
    assert (run.data_interval_start, run.data_interval_end) == (last.data_interval_start, last.data_interval_end)
    assert runs.audited(LOADER)[-1] == ("trigger_dag_run", "admin")
    assert (run.triggering_user_name, run.triggered_by) == ("admin", DagRunTriggeredByType.UI)
    dialog.get_by_role("button", name="Close").click()
    page.get_by_text("The run is queued.").wait_for()
    page.clock.fast_forward(A_MINUTE)
    page.get_by_text(f"DAG {LOADER} is running").wait_for()
    runs.end(run.run_id)
    page.clock.fast_forward(A_MINUTE)
    page.get_by_text("did not load this period").wait_for()
    keep(page, "what-came-of-a-reload")
    assert troubles == []


@pytest.mark.thorough
def test_a_reload_that_failed_says_which_task_failed(loaded: Lake, open_page: Open) -> None:
    page, troubles = open_period(open_page)
    act(page, "Reload…", "Reload").get_by_role("button", name="Close").click()
    run = runs.runs(LOADER)[-1]
    runs.set_state(SimpleNamespace(run_id=run.run_id), "failed")
    runs.end(run.run_id, "failed")
    group = page.get_by_role("group", name=f"Actions on {PERIOD}")
    group.get_by_text("Task load failed").wait_for()
    assert "The run has failed." in group.inner_text()
    keep(page, "a-reload-that-failed")
    group.get_by_role("link", name="Open the log").click()
    page.wait_for_url(f"**/dags/{LOADER}/runs/*/tasks/load")
    assert troubles == []


@pytest.mark.thorough
def test_a_period_that_is_opened_by_its_address_can_be_reloaded(loaded: Lake, open_page: Open) -> None:
    page, _ = open_period(open_page)
    page.reload()
    dialog = act(page, "Reload…", "Reload")
    assert dialog.get_by_role("status").inner_text().startswith("Started")


@pytest.mark.thorough
def test_a_question_that_is_drawn_in_one_moment_with_the_panel_lies_above_it(
    as_user: AsUser, loaded: Lake, open_page: Open
) -> None:
    fail(loaded, runs.start(as_user("admin")))
    page, _ = open_period(open_page, "failed")
    page.get_by_role("button", name="Reload…").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    # All that it asks for is there.
    page.get_by_role("button", name=f"Reload {loaded.database}.trips {PERIOD}").click()
    question = page.get_by_role("alertdialog")
    question.get_by_role("button", name="Cancel").click()
    question.wait_for(state="detached")
    page.get_by_role("button", name="Reload…").click(trial=True)


@pytest.mark.thorough
def test_the_keyboard_alone_leads_from_a_period_to_an_action_and_back(loaded: Lake, open_page: Open) -> None:
    page, _ = open_page(PAGE, role="admin")
    page.get_by_role("button", name=f"{PERIOD}: published").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Reload…").wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.get_by_role("button", name="Reload…").evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").wait_for()
    page.wait_for_function("document.activeElement.textContent === 'Cancel'")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.textContent === 'Reload…'")
    page.keyboard.press("Escape")
    page.wait_for_function(f"document.activeElement.dataset.period === '{PERIOD}'")
    assert len(runs.runs(LOADER)) == 1


@pytest.mark.thorough
def test_a_double_click_starts_one_run(loaded: Lake, open_page: Open) -> None:
    page, _ = open_period(open_page)
    page.get_by_role("button", name="Reload…").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("button", name="Reload", exact=True).dblclick()
    dialog.get_by_role("button", name="Close").wait_for()
    assert len(runs.runs(LOADER)) == 2


@pytest.mark.thorough
def test_rows_of_others_are_replaced_if_that_is_ticked(loaded: Lake, open_page: Open) -> None:
    loaded.on_node(0, f"INSERT INTO {loaded.database}.trips (trip_id, pickup_at) VALUES (1, '{PERIOD}-05 00:00:00')")
    page, _ = open_period(open_page, "changed by somebody")
    page.get_by_role("button", name="Reload…").click()
    box = page.get_by_role("checkbox", name="Also replace rows that somebody else inserted or changed")
    assert not box.is_checked()
    page.get_by_text("Also replace rows that somebody else").click()
    assert box.is_checked()
    page.get_by_text("Also load objects that shrank").click()
    keep(page, "reload-a-changed-period")
    page.get_by_role("alertdialog").get_by_role("button", name="Reload", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name="Close").wait_for()
    asked = runs.runs(LOADER)[-1].conf["chs3_reload"]
    assert (asked["replace_rows_of_others"], asked["allow_shrink"]) == (True, True)


@pytest.mark.thorough
@pytest.mark.parametrize(("verb", "action"), [("Force merges", "merge"), ("Forget", "forget")])
def test_other_actions_are_runs_of_the_dag_for_them(loaded: Lake, open_page: Open, verb: str, action: str) -> None:
    page, _ = open_period(open_page)
    act(page, f"{verb}…", verb)
    (run,) = runs.runs(ACTIONS)
    wanted = {"action": action, "period": PERIOD, "database": loaded.database, "table": "trips"}
    where = {"clickhouse_conn_id": "chs3_default", "cluster": loaded.cluster.name, "staging_database": loaded.database}
    assert run.conf == wanted | where


@pytest.mark.thorough
def test_ending_a_load_marks_its_task_as_failed(as_user: AsUser, trips_lake: Lake, open_page: Open) -> None:
    runs.make_known(LOADER)
    task = runs.start(as_user("admin"))
    fail(trips_lake, task)
    runs.set_state(task, "running")
    page, troubles = open_period(open_page, "loading")
    page.get_by_role("button", name="End the load…").wait_for()
    assert page.get_by_role("button", name="Reload…").count() == 0
    act(page, "End the load…", "End the load")
    keep(page, "end-a-load-in-airflow")
    assert troubles == []
    assert runs.state_of(task) == "failed"


@pytest.mark.thorough
def test_a_period_that_no_task_is_known_to_have_loaded_has_no_reload(trips_lake: Lake, open_page: Open) -> None:
    runs.make_known(LOADER, ACTIONS)
    trips_lake.upload(TRIPS)
    trips_lake.load()
    page, _ = open_period(open_page)
    page.get_by_text("You cannot reload this period from here").wait_for()
    assert page.get_by_role("group", name=f"Actions on {PERIOD}").get_by_role("button").all_inner_texts() == [
        "Force merges…",
        "Restore…",
        "Forget…",
    ]


@pytest.mark.thorough
def test_what_airflow_refuses_is_said_and_can_be_tried_again(loaded: Lake, open_page: Open) -> None:
    page, _ = open_period(open_page)
    page.get_by_role("button", name="Reload…").wait_for()
    runs.make_known(ACTIONS)
    page.get_by_role("button", name="Reload…").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_text("It may load nothing").wait_for()
    button = dialog.get_by_role("button", name="Reload", exact=True)
    button.click()
    dialog.get_by_text("Nothing was done. Airflow answers 404").wait_for()
    assert button.is_enabled()
    assert runs.runs(LOADER) == []


class TestViewer:
    @pytest.mark.thorough
    def test_has_no_buttons_and_is_told_why(self, loaded: Lake, open_page: Open) -> None:
        page, troubles = open_period(open_page, role="viewer")
        actions = page.get_by_role("group", name=f"Actions on {PERIOD}")
        actions.get_by_text(f"Airflow does not let you start runs of DAG {LOADER}: ask its owner, airflow").wait_for()
        assert actions.get_by_role("button").count() == 0
        assert troubles == []

    def test_is_refused_by_airflow_whatever_the_page_shows(self, loaded: Lake, as_user: AsUser) -> None:
        viewer, (run,) = as_user("viewer"), runs.runs(LOADER)
        task = f"/api/v2/dags/{LOADER}/dagRuns/{run.run_id}/taskInstances/load/-1"
        answers = [
            *(viewer.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None}) for dag in (LOADER, ACTIONS)),
            viewer.patch(task, json={"new_state": "failed"}),
        ]
        assert [answer.status_code for answer in answers] == [403, 403, 403]
        assert (len(runs.runs(LOADER)), runs.runs(ACTIONS)) == (1, [])


@pytest.mark.thorough
def test_without_the_dag_for_them_the_page_says_what_is_missing(loaded: Lake, open_page: Open) -> None:
    runs.make_known(LOADER)
    page, _ = open_period(open_page)
    missing = f"To force merges, discard, restore, unpin and forget periods, add the DAG {ACTIONS}: a file in "
    page.get_by_text(missing).wait_for()
    assert page.get_by_role("button", name="Force merges…").count() == 0


def test_rights_are_those_that_airflow_grants(as_user: AsUser) -> None:
    runs.make_known(LOADER, ACTIONS)

    def rights(role: str, **query: str) -> Any:
        return as_user(role).get("/chs3/api/rights", params=query).raise_for_status().json()

    def told(dag: str, may: bool) -> dict[str, Any]:
        return {"dag_id": dag, "is_paused": False, "may_start_runs": may, "may_end_tasks": may, "may_edit": may}

    for role, may in (("admin", True), ("viewer", False)):
        assert rights(role, dag_id=LOADER) == {
            "dag": told(LOADER, may),
            "actions_dag": told(ACTIONS, may),
            "actions_dag_id": ACTIONS,
            "reload_options": {name: option.help for name, option in RELOAD_OPTIONS.items()},
        }
    runs.make_known()
    without_dags = rights("admin")
    assert (without_dags["dag"], without_dags["actions_dag"]) == (None, None)
