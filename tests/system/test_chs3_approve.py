"""The DAGs that ask a person, and that undo, run by real Airflow: held, approved or rejected, published, restored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.operators.held import DiscardPeriodsOperator
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.integration.conftest import lake, trips_lake
from tests.plugin.conftest import airflow_api, as_user, fresh_looks
from tests.support.lake import PERIOD, Lake
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from starlette.testclient import TestClient

if airflow.__version__.startswith(("3.1.", "3.2.")):
    pytest.skip("dag.test() waits for people from Airflow 3.3 on", allow_module_level=True)

#: Fixtures.
__all__ = ["airflow_api", "as_user", "fresh_looks", "lake", "trips_lake"]

DAGS = Path(__file__).parents[2] / "dags"
#: The run about the period.
MONTHLY = datetime(2026, 11, 1, tzinfo=UTC)
MANY, FEW = Trips(rows_per_period=600, files_per_period=3), Trips(seed=2, rows_per_period=200, files_per_period=3)
#: Task → state, of a run whose load publishes.
PUBLISHED = {"load": "success", "is_held": "skipped", "ask": "skipped", "approve": "skipped", "published": "success"}
APPROVED = {"load": "skipped", "is_held": "success", "ask": "success", "approve": "success", "published": "success"}


class Runs:
    """Runs of the DAGs over the lake."""

    def __init__(self, lake: Lake, run_dag: Callable[..., DagRun], api: TestClient) -> None:
        from tests.support.dag_bag import DagBag

        bag = DagBag(DAGS)
        assert bag.import_errors == {}
        self._dags, self._lake, self._run_dag, self._api = bag.dags, lake, run_dag, api

    def run(self, name: str, **conf: Any) -> dict[str, str]:
        """Task → state."""
        of_table = {"database": self._lake.database, "table": "trips"}
        logical_date = None if name == "chs3_undo" else MONTHLY
        done = self._run_dag(self._dags[name], logical_date=logical_date, run_conf=of_table | conf)
        return {ti.task_id: str(ti.state) for ti in done.get_task_instances()}

    def task(self, name: str) -> Any:
        return self._dags["chs3_checked"].get_task(name)

    def load(self, **conf: Any) -> dict[str, str]:
        return self.run("chs3_checked", bucket=self._lake.bucket, key="trips/{YYYY-MM}/", **conf)

    def load_and_answer(self, choice: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Load, and answer what a person is asked, which is returned, too."""
        asked = list[dict[str, Any]]()
        person = threading.Thread(target=lambda: asked.append(self._answer(choice)))
        person.start()
        states = self.load()
        person.join()
        return states, asked[0]

    def _answer(self, choice: str) -> dict[str, Any]:
        asked = list[dict[str, Any]]()

        def is_asked() -> bool:
            url = "/api/v2/dags/chs3_checked/dagRuns/~/hitlDetails?response_received=false"
            asked[:] = [
                each
                for each in self._api.get(url).json()["hitl_details"]
                if each["task_instance"]["state"] == "awaiting_input"
            ]
            return bool(asked)

        wait_until(is_asked)
        (one,) = asked
        run = one["task_instance"]["dag_run_id"]
        url = f"/api/v2/dags/chs3_checked/dagRuns/{run}/taskInstances/ask/-1/hitlDetails"
        answer = self._api.patch(url, json={"chosen_options": [choice], "params_input": {}})
        assert answer.status_code == 200, answer.text
        return one


@pytest.fixture
def runs(trips_lake: Lake, run_dag: Callable[..., DagRun], as_user: Callable[[str], TestClient]) -> Iterator[Runs]:
    yield Runs(trips_lake, run_dag, as_user("admin"))
    DiscardPeriodsOperator(task_id="discard", periods=[PERIOD], **trips_lake.target).execute({})


def test_what_is_held_is_published_once_a_person_approves_and_may_be_undone(trips_lake: Lake, runs: Runs) -> None:
    # The approval has no other arguments than those of the DAG that is copied: only its load knows `select`.
    runs.task("load").select = {name: "concat(zone, '')" if name == "zone" else name for name in COLUMNS}
    trips_lake.upload(MANY)
    assert runs.load() == PUBLISHED
    trips_lake.upload(FEW)
    states, asked = runs.load_and_answer("Reject")
    assert states == APPROVED | {"approve": "skipped", "published": "skipped"}
    assert asked["subject"] == f"Publish {PERIOD} into trips?"
    assert asked["body"] == "checks failed: rows is 0, wanted true"
    assert trips_lake.facts() == MANY.facts(PERIOD)
    states, asked = runs.load_and_answer("Approve")
    assert states == APPROVED
    assert asked["body"].startswith("held since 20")
    assert trips_lake.facts() == FEW.facts(PERIOD)
    assert runs.run("chs3_undo", period=PERIOD) == {"restore": "success"}
    assert trips_lake.facts() == MANY.facts(PERIOD)
    # A load leaves what is pinned, and nobody is asked.
    assert runs.load() == dict.fromkeys(PUBLISHED, "skipped") | {"is_held": "success"}


@pytest.mark.thorough
def test_a_run_that_the_page_starts_approves(trips_lake: Lake, runs: Runs) -> None:
    trips_lake.upload(FEW)
    never = {"table_checks": {"never": {"check_statement": "false"}}}
    with pytest.raises(AirflowSkipException, match="held, the table is unchanged"):
        trips_lake.load(checks=never, on_failed_check="hold")
    asked = {"database": trips_lake.database, "table": "trips", "periods": [PERIOD], "approve": True}
    assert runs.load(chs3_reload=asked) == PUBLISHED
    assert trips_lake.facts() == FEW.facts(PERIOD)
