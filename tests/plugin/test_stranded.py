"""Periods that the next load would change, though no run of their DAG comes by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin import runs
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import periods
from tests.plugin.runs import LOADER
from tests.plugin.scheduled_tasks import leave_unfinished, load, set_dag, task
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

#: A fixture.
__all__ = ["task"]

GONE, BROKEN, WITHOUT_SCHEDULE = (
    {"is_stale": True},
    {"is_stale": True, "has_import_errors": True},
    {"timetable_summary": "None"},
)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("dag", "why"),
    [
        (GONE, "is no longer in Airflow"),
        (BROKEN, "cannot be imported: fix its file first"),
        (WITHOUT_SCHEDULE, "has no schedule, and no run is active"),
    ],
)
def test_what_a_killed_load_left_needs_somebody_where_no_run_comes(
    as_user: AsUser, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch, dag: dict[str, Any], why: str
) -> None:
    leave_unfinished(trips_lake, task, monkeypatch)
    runs.end(task.run_id, "failed")
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "unfinished"
    set_dag(**dag)
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "stranded"
    assert period["why"].startswith(f"the DAG {LOADER}, which loaded it last, {why}; its newest load ended without")
    trips_lake.load()
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "published"


@pytest.mark.thorough
def test_a_run_at_work_may_load_it_though_its_dag_has_no_schedule(
    as_user: AsUser, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_unfinished(trips_lake, task, monkeypatch)
    set_dag(**WITHOUT_SCHEDULE)
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "unfinished"
    # The next load removes what the killed one left.
    trips_lake.load()


@pytest.mark.thorough
def test_a_dag_that_cannot_be_imported_is_told_though_all_that_it_loaded_is_published(
    as_user: AsUser, trips_lake: Lake, task: Any, open_page: Open
) -> None:
    load(trips_lake, task)
    page, troubles = open_page(PAGE)
    page.get_by_text("No period needs attention.").wait_for()
    assert page.get_by_role("listitem", name="cannot be imported").count() == 0
    set_dag(**BROKEN)
    page.reload()
    told = page.get_by_role("listitem", name=f"DAG {LOADER} cannot be imported")
    assert "Airflow cannot import it: it loads nothing until its file is fixed." in told.inner_text()
    page.get_by_role("heading", name="1 DAG needs attention").wait_for()
    keep(page, "dag-cannot-be-imported")
    assert troubles == []
    # Nobody expects anything of a paused one.
    set_dag(is_paused=True)
    page.reload()
    page.get_by_text("No period needs attention.").wait_for()
    assert told.count() == 0
