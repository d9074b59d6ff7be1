"""The DAG that alerts people, run by real Airflow: each failure reaches those who can fix it, and says how."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow
import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.conftest import lake
from tests.support.lake import Lake
from tests.system.example_nights import without_retries

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

#: Fixtures.
__all__ = ["lake"]

DAGS = Path(__file__).parents[2] / "dags"
PAGE = DAGS.parent / "docs" / "how-to" / "alerts.md"
NIGHT = datetime(2026, 3, 12, 3, tzinfo=UTC)


@pytest.fixture
def dag(airflow_db: Path) -> DAG:
    return without_retries("chs3_alerts")


@pytest.mark.skipif(airflow.__version__.startswith("3.1."), reason="dag.test() of 3.1 gives callbacks no exception")
def test_producers_hear_of_bad_files_and_database_people_of_a_bad_table(
    dag: DAG, lake: Lake, run_dag: Callable[..., DagRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, str]] = []
    tell: Any = dag.get_task("scheduled_load.plan").on_failure_callback[0]
    monkeypatch.setitem(tell.__globals__, "send", lambda *args: sent.append(args))
    lake.put("trips/2026-03/bad.parquet", b"this is no Parquet")
    # A good month beside it, in one task.
    lake.upload(Trips(rows_per_period=100), "2026-02")
    conf = {"bucket": lake.bucket, "database": lake.database, "table": "trips"}

    for key in ("toYYYYMM(pickup_at)", "trip_id"):
        lake.on_every_node(f"DROP TABLE IF EXISTS {lake.database}.trips SYNC")
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.trips (trip_id UInt64, pickup_at DateTime('UTC')) ENGINE = MergeTree "
            f"PARTITION BY {key} ORDER BY trip_id"
        )
        run_dag(dag, logical_date=NIGHT, run_conf=conf)

    assert [team for team, _ in sent] == ["producers", "database"]
    assert f"{lake.bucket}/trips/2026-03/bad.parquet cannot be read as Parquet" in sent[0][1]
    # The way out is in the text, which the page shows.
    assert sent[1][1].replace(lake.database, "taxi") in " ".join(PAGE.read_text("utf-8").split())


def test_somebody_is_called_an_hour_before_the_table_is_due(dag: DAG) -> None:
    # tests/scheduler/test_deadlines.py lets such an alert fire.
    (deadline,) = dag.deadline if isinstance(dag.deadline, list) else [dag.deadline]
    assert deadline.interval == timedelta(hours=27)
    assert deadline.callback.kwargs == {"text": "trips: due at seven, not done at six"}
