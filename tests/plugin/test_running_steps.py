"""The page on a load that is stopped at its last steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import update

from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TRIPS, details, loading, periods
from tests.plugin.runs import LOADER, make_known, set_state, start
from tests.support.deferring import Gate, gate
from tests.support.lake import PERIOD, Lake
from tests.support.several_periods import Periods
from tests.support.several_periods import periods as several_periods
from tests.support.slow import SLOW, SLOW_SETTINGS
from tests.support.strikes import Strikes, strikes

#: Fixtures.
__all__ = ["gate", "several_periods", "strikes"]

#: Where loads are held: a step of theirs that is over in milliseconds otherwise.
VERIFIES, PUBLISHES = "List again, and count what is staged", "Look for replaced parts"


@pytest.fixture
def task(as_user: AsUser, airflow_db: Path) -> SimpleNamespace:
    """A task that a worker has begun."""
    make_known(LOADER)
    task = start(as_user("admin"))
    begin(task)
    return task


def begin(task: SimpleNamespace) -> None:
    """As if a worker began with a try."""
    set_state(task, "running")
    with create_session() as session:
        begun = update(TaskInstance).where(TaskInstance.run_id == task.run_id)
        session.execute(begun.values(start_date=datetime.now(UTC)))


def seen_at(strikes: Strikes, step: str, look: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is seen once a load has come to a step, which it begins only then."""
    seen: list[dict[str, Any]] = []
    strikes.before(step, lambda: seen.append(look()))
    return seen


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize(("held_at", "step"), [(VERIFIES, "verify"), (PUBLISHES, "publish")])
def test_a_load_tells_that_it_verifies_or_publishes(
    as_user: AsUser, trips_lake: Lake, task: SimpleNamespace, strikes: Strikes, held_at: str, step: str
) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    seen = seen_at(strikes, held_at, lambda: periods(as_user, trips_lake)[PERIOD] | details(as_user, trips_lake))
    trips_lake.operator(select=SLOW, settings=SLOW_SETTINGS).execute({"ti": task})
    (found,) = seen
    assert (found["state"], found["step"], found["insert"]) == ("loading", step, None)
    spent = found["inserting"]["seconds_by_step"]
    assert list(spent) == ["list", "inspect", "plan", "stage", "insert"]
    assert spent["insert"] > 1
    now = periods(as_user, trips_lake)[PERIOD]
    assert (now["state"], now["step"]) == ("published", None)


@pytest.mark.thorough
@pytest.mark.parametrize("held_at", ["Create staging", VERIFIES])
def test_a_retry_does_not_tell_the_step_of_the_try_before(
    as_user: AsUser, trips_lake: Lake, task: SimpleNamespace, strikes: Strikes, held_at: str
) -> None:
    trips_lake.upload(TRIPS)
    operator = trips_lake.operator(select=SLOW, settings=SLOW_SETTINGS)
    strikes.before(VERIFIES, die)
    with pytest.raises(KeyboardInterrupt):
        operator.execute({"ti": task})
    assert periods(as_user, trips_lake)[PERIOD]["step"] == "verify"
    strikes.reset()
    begin(task)
    seen = seen_at(strikes, held_at, lambda: periods(as_user, trips_lake)[PERIOD])
    operator.execute({"ti": task})
    (found,) = seen
    assert (found["state"], found["step"]) == ("loading", "verify" if held_at == VERIFIES else None)


def die() -> None:
    """As if the worker were killed: nothing is cleaned up."""
    raise KeyboardInterrupt


@pytest.mark.thorough
def test_a_load_whose_worker_was_killed_is_unfinished_while_its_insert_runs_on(
    as_user: AsUser, trips_lake: Lake, task: SimpleNamespace, gate: Gate
) -> None:
    trips_lake.upload(TRIPS)
    with loading(trips_lake, gate, task=task):
        states = [periods(as_user, trips_lake)[PERIOD]]
        # As the scheduler does once the task's heartbeat is missing.
        set_state(task, "failed")
        states.append(periods(as_user, trips_lake)[PERIOD])
    assert [(state["state"], state["step"]) for state in states] == [("loading", "insert"), ("unfinished", None)]
    assert states[1]["insert"] is None
    assert states[1]["why"] == (
        "its newest load ended without publishing; the partition was never loaded; "
        "its task has failed, but one of its queries still runs: the next load ends it"
    )


@pytest.mark.thorough
def test_a_task_that_waits_for_a_worker_is_told_as_that(
    as_user: AsUser, trips_lake: Lake, task: SimpleNamespace, strikes: Strikes
) -> None:
    trips_lake.upload(TRIPS)
    strikes.before("Insert", die)
    with pytest.raises(KeyboardInterrupt):
        trips_lake.operator().execute({"ti": task})
    set_state(task, "queued")
    found = periods(as_user, trips_lake)[PERIOD]
    assert (found["state"], found["step"]) == ("loading", None)
    assert found["why"] == "none of its queries runs right now; its task is queued"
    # The next load removes what the killed one left.
    trips_lake.load()


@pytest.mark.thorough
@pytest.mark.parametrize(("held_at", "step"), [(VERIFIES, "verify"), (PUBLISHES, "publish")])
def test_periods_that_are_loaded_together_tell_it_too(
    as_user: AsUser,
    several_periods: Periods,
    task: SimpleNamespace,
    strikes: Strikes,
    monkeypatch: pytest.MonkeyPatch,
    held_at: str,
    step: str,
) -> None:
    # Only inserts that take longer than a test may record that they have ended.
    monkeypatch.setattr("airflow_provider_chs3.core.load.insert._RECORDED_FROM_SECONDS", 0)
    both, lake = ("2026-09", "2026-10"), several_periods.lake
    several_periods.load(*both)
    seen = seen_at(strikes, held_at, lambda: periods(as_user, lake, lake.table))
    slow = {"day": "day", "n": "n + sleepEachRow(0.02)"}
    several_periods.operator(*both, select=slow, settings=SLOW_SETTINGS).execute({"ti": task})
    (found,) = seen
    assert {period: each["step"] for period, each in found.items()} == dict.fromkeys(both, step)
