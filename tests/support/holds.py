"""Rows that fail checks and are held, and what is decided about them."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.operators.held import ApprovePeriodsOperator, DiscardPeriodsOperator
from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.versions import ListVersionsOperator
from tests.support.checked_trips import NO_NULLS, Trips
from tests.support.lake import PERIOD

RECORDS = "('chs3_ledger', 'chs3_loads', 'chs3_objects')"
CSV = {"file_format": "CSVWithNames"}
HOLDS = {"on_failed_check": "hold"}


def hold(trips: Trips, *, says: str = "held", keep_versions: int = 0, **options: Any) -> None:
    with pytest.raises(AirflowSkipException, match=says):
        trips.load(NO_NULLS, policies=HOLDS | {"keep_versions": keep_versions}, **options)


def load(trips: Trips, **policies: Any) -> Any:
    return trips.load(NO_NULLS, policies=HOLDS | policies)


def discard(trips: Trips) -> Any:
    return decide(trips, DiscardPeriodsOperator)


def approve(trips: Trips) -> Any:
    conf = {"chs3_reload": {**of(trips), "approve": True}}
    return trips.load(NO_NULLS, policies=HOLDS, context=run(conf))


def of(trips: Trips) -> dict[str, Any]:
    return {"database": trips.lake.database, "table": trips.lake.table, "periods": [PERIOD]}


def run(conf: dict[str, Any]) -> dict[str, Any]:
    class DagRun:
        pass

    dag_run = DagRun()
    dag_run.conf = conf  # type: ignore[attr-defined]
    return {"dag_run": dag_run}


def tables(trips: Trips, beginning: str = "chs3_") -> list[str]:
    of_table = f"database = '{trips.lake.database}' AND startsWith(name, '{beginning}') AND name NOT IN {RECORDS}"
    answers = trips.lake.on_every_node(f"SELECT name FROM system.tables WHERE {of_table}")
    return sorted({name for rows in answers for (name,) in rows})


def decide(trips: Trips, kind: Any = ApprovePeriodsOperator, **options: Any) -> Any:
    """Decide by an operator of its own."""
    if kind in (AdoptPeriodsOperator, ApprovePeriodsOperator):
        place = {"bucket": trips.lake.bucket, "key": options.pop("key", "t/{YYYY-MM}/")}
        options |= place | ({"files": CSV} if kind is AdoptPeriodsOperator else {})
    return kind(task_id="decide", periods=[PERIOD], **trips.lake.target, **options).execute({})


def versions(trips: Trips) -> list[tuple[int, str]]:
    return [(each["rows"], each["why_broken"]) for each in decide(trips, ListVersionsOperator)]


def of_period(trips: Trips) -> list[str]:
    lake = trips.lake
    return ["--period", PERIOD, "--database", lake.database, "--table", lake.table, "--cluster", lake.cluster.name]


def plan(trips: Trips) -> Any:
    place = {"bucket": trips.lake.bucket, "key": "t/{YYYY-MM}/"}
    return PlanLoadsOperator(task_id="plan", all_periods=True, **trips.lake.target, **place).planned({})
