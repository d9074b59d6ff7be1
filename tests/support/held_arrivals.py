"""Arrivals that are held, and approved."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.operators.held import ApprovePeriodsOperator
from tests.support.arrivals import Arrivals

#: Numbers below 10 are test rows.
CHECKED = {
    "checks": {"table_checks": {"no_tests": {"check_statement": "min(number) >= 10"}}},
    "on_failed_check": "hold",
}


def hold(
    arrivals: Arrivals,
    arrival: int,
    *,
    says: str = "unchanged: with arrival 2026-11-10; 2026-11-09, checks failed: no_tests",
    **options: Any,
) -> None:
    with pytest.raises(AirflowSkipException, match=says):
        arrivals.load(arrival, **(CHECKED | options))


def approve(arrivals: Arrivals, arrival: int, **options: Any) -> list[dict[str, Any]]:
    load = arrivals.operator(arrival, **(CHECKED | options)).as_load()
    return ApprovePeriodsOperator(task_id="approve", load=load, periods=[f"2026-11-{arrival:02}"]).execute({})


#: Loads that bring many rows at once.
NOT_MANY = {
    "checks": {"statements": {"few": "SELECT (SELECT count() FROM staged) < (SELECT count() FROM published) + 5"}}
}
