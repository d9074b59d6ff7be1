"""The page on proofs: a seal where a table holds its objects' rows, and what to do where it does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG

from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import loaded, periods
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page

Prove = Callable[..., str]

NEWER = Trips(seed=2, rows_per_period=600, files_per_period=3)
OTHER = "2026-09"


@pytest.fixture
def prove(trips_lake: Lake, run_dag: Callable[..., DagRun]) -> Prove:
    """Proves periods with a DAG, and returns how its run ended."""

    def of(*names: str, **options: Any) -> str:
        with DAG(dag_id="proofs", schedule=None) as dag:
            ProvePeriodsOperator(task_id="prove", periods=[*names], **trips_lake.place, **options)
        return str(run_dag(dag).state)

    return of


def seal(as_user: AsUser, lake: Lake) -> str:
    found = periods(as_user, lake)[PERIOD]["seal"]
    assert found is None or found["proved_at"][:10] == f"{datetime.now(UTC):%Y-%m-%d}"
    return found["found"] if found else ""


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_an_equal_period_carries_a_seal_until_it_is_loaded_again(
    as_user: AsUser, trips_lake: Lake, prove: Prove
) -> None:
    loaded(trips_lake)
    assert seal(as_user, trips_lake) == ""
    assert prove(PERIOD) == "success"
    assert seal(as_user, trips_lake) == "600 rows"
    # Merges change nothing.
    trips_lake.on_every_node(f"OPTIMIZE TABLE {trips_lake.database}.trips FINAL")
    assert seal(as_user, trips_lake) == "600 rows"
    trips_lake.upload(NEWER)
    trips_lake.load()
    assert seal(as_user, trips_lake) == ""


def test_what_a_proof_found_is_shown_until_the_period_is_changed_or_loaded(
    as_user: AsUser, trips_lake: Lake, prove: Prove
) -> None:
    loaded(trips_lake)
    loaded(trips_lake, OTHER)
    trips_lake.upload(NEWER)
    # It tells the page of both, and then fails.
    assert prove(OTHER, PERIOD) == "failed"
    found = periods(as_user, trips_lake)
    assert (found[OTHER]["state"], found[OTHER]["seal"]["found"]) == ("published", "600 rows")
    assert (found[PERIOD]["state"], found[PERIOD]["seal"]) == ("differs", None)
    assert "a proof compared it with its objects at " in found[PERIOD]["why"]
    assert ": other values in " in found[PERIOD]["why"]
    of_other = f"IN PARTITION ID '{OTHER.replace('-', '')}'"
    trips_lake.on_every_node(
        f"ALTER TABLE {trips_lake.database}.trips DELETE {of_other} WHERE trip_id % 2 = 0 SETTINGS mutations_sync = 2"
    )
    trips_lake.load()
    found = periods(as_user, trips_lake)
    assert (found[OTHER]["state"], found[OTHER]["seal"], found[PERIOD]["state"]) == ("changed", None, "published")


@pytest.mark.thorough
def test_a_seal_and_what_to_do_without_one_are_on_the_page(
    trips_lake: Lake, prove: Prove, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    loaded(trips_lake)
    loaded(trips_lake, OTHER)
    trips_lake.upload(NEWER)
    assert prove(OTHER, PERIOD) == "failed"
    page, troubles = open_page(PAGE, viewport={"width": 1440, "height": 900})
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    page.get_by_role("button", name=f"{OTHER}: published, proved {today}, 600 rows").wait_for()
    needs = page.get_by_role("region", name="What needs attention")
    assert "1 period needs attention" in needs.inner_text()
    needs.get_by_text("A proof compared it with its objects").wait_for()
    keep(page, "seal")
    page.get_by_role("button", name=f"{OTHER}: published").click()
    page.get_by_role("dialog").get_by_text(f"Proved {today}, 600 rows.").wait_for()
    keep(page, "seal-panel")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"{PERIOD}: differs").click()
    page.get_by_role("dialog").get_by_text("Reload it: the load replaces its rows").wait_for()
    keep(page, "differs-panel")
    assert troubles == []
