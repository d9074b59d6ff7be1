"""The page on a load whose worker may have died, as long as Airflow takes its task for running."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import periods
from tests.plugin.scheduled_tasks import leave_unfinished, set_task, task
from tests.support.lake import PERIOD, Lake

#: A fixture.
__all__ = ["task"]


def test_that_its_worker_is_silent_is_told(
    as_user: AsUser, trips_lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_unfinished(trips_lake, task, monkeypatch)
    now, told = datetime.now(UTC), {}
    for name, heard_at in (("lately", now), ("long ago", now - timedelta(minutes=3))):
        set_task(task, state="running", last_heartbeat_at=heard_at)
        period = periods(as_user, trips_lake)[PERIOD]
        assert period["state"] == "loading"
        told[name] = period["why"]
    running = "none of its queries runs right now; its task is running"
    since = f"{now - timedelta(minutes=3):%Y-%m-%d %H:%M:%S}"
    silent = f"{running}, but its worker has been silent since {since} UTC: if it is dead, Airflow fails the task soon"
    assert told == {"lately": running, "long ago": silent}
    # The next load removes what the killed one left.
    trips_lake.load()
