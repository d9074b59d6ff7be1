"""The page on periods that have no objects any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, loaded, periods
from tests.support.lake import PERIOD, Lake

EMPTIED = SimpleNamespace(**{**vars(TASK), "run_id": "the run that emptied it"})


@pytest.mark.thorough
def test_the_task_that_published_a_period_without_objects_is_named(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine"})
    loaded(trips_lake)
    trips_lake.operator(key="nothing/{YYYY-MM}/", on_no_objects="empty").execute({"ti": EMPTIED})
    period = periods(as_user, trips_lake)[PERIOD]
    assert (period["state"], period["rows"], period["objects"]) == ("published", 0, 0)
    assert period["task"]["run_id"] == "the run that emptied it"
